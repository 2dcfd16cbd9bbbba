#include "RRawFileHither.hxx"

#include "HitherClient.h"

#include <TPluginManager.h>
#include <TROOT.h>

#include <stdexcept>
#include <vector>

namespace {

[[noreturn]] void Fail(const HitherClient::Failure &failure)
{
   throw std::runtime_error(failure.Message());
}

// The manager cannot read the name of this interface from .rootrc. Handlers that ROOT has not read by now
// come after this one; `^http[s]?:`, as ROOT writes it, would be replaced by ROOT's.
[[maybe_unused]] const bool isRegistered = [] {
   for (const char *const expression : {"^https?:", "^roots?:"})
      gROOT->GetPluginManager()->AddHandler("ROOT::Internal::RRawFile", expression, "ROOT::Internal::RRawFileHither",
                                            "libHitherFile",
                                            "RRawFileHither(std::string_view,ROOT::Internal::RRawFile::ROptions)");
   return true;
}();

} // namespace

ROOT::Internal::RRawFileHither::RRawFileHither(std::string_view url, ROptions options) : RRawFile(url, options) {}

ROOT::Internal::RRawFileHither::~RRawFileHither()
{
   hither_close(fFile);
}

// ROOT reads the copy by what it has read of the original: both are of one version.
std::unique_ptr<ROOT::Internal::RRawFile> ROOT::Internal::RRawFileHither::Clone() const
{
   auto copy = std::make_unique<RRawFileHither>(fUrl, fOptions);
   HitherClient::Failure failure;
   if (fFile && !(copy->fFile = HitherClient::OpenAgain(fFile, false, failure).release()))
      Fail(failure);
   return copy;
}

void ROOT::Internal::RRawFileHither::OpenImpl()
{
   fOptions.fBlockSize = 0;
   if (fFile)
      return;
   HitherClient::Failure failure;
   fFile = HitherClient::Open(HitherClient::Url(fUrl.c_str()), failure).release();
   if (!fFile)
      Fail(failure);
}

std::uint64_t ROOT::Internal::RRawFileHither::GetSizeImpl()
{
   HitherClient::Failure failure;
   const int64_t size = hither_size(fFile, failure);
   if (size < 0)
      Fail(failure);
   return size;
}

size_t ROOT::Internal::RRawFileHither::ReadAtImpl(void *buffer, size_t length, std::uint64_t offset)
{
   HitherClient::Failure failure;
   const int64_t read = hither_pread(fFile, buffer, length, offset, failure);
   if (read < 0)
      Fail(failure);
   return read;
}

void ROOT::Internal::RRawFileHither::ReadVImpl(RIOVec *ranges, unsigned int count)
{
   std::vector<hither_piece> pieces;
   pieces.reserve(count);
   for (unsigned int at = 0; at < count; ++at)
      pieces.push_back({ranges[at].fOffset, ranges[at].fSize, ranges[at].fBuffer});
   HitherClient::Failure failure;
   if (hither_preadv(fFile, pieces.data(), pieces.size(), failure) < 0)
      Fail(failure);
   for (unsigned int at = 0; at < count; ++at)
      ranges[at].fOutBytes = ranges[at].fSize;
}
