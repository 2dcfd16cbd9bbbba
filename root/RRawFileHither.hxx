// An RRawFile over hither: RNTuple of http(s) and root(s) URLs.
//
// RNTuple reads the pages of a cluster in one vector read, from a thread of its own and a cluster ahead
// of what it decodes; that is one vector read of the library. Nothing is buffered here: small reads at
// the beginning are served from what the library has fetched when it opened the file.

#ifndef ROOT_RRawFileHither
#define ROOT_RRawFileHither

#include <ROOT/RRawFile.hxx>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

struct hither_file;

namespace ROOT {
namespace Internal {

class __attribute__((visibility("default"))) RRawFileHither : public RRawFile {
public:
   RRawFileHither(std::string_view url, ROptions options);
   ~RRawFileHither() override;

   std::unique_ptr<RRawFile> Clone() const final;

protected:
   void OpenImpl() final;
   size_t ReadAtImpl(void *buffer, size_t length, std::uint64_t offset) final;
   void ReadVImpl(RIOVec *ranges, unsigned int count) final;
   std::uint64_t GetSizeImpl() final;

private:
   hither_file *fFile = nullptr;
};

} // namespace Internal
} // namespace ROOT

#endif
