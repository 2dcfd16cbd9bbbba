// What files, directories and errors of the plug-in share: the client of this process.
//
// Every file of a process is read through one client, so that they share connections, cache and
// credentials. It takes its options from the environment and the configuration file, as the command
// does. It is never freed: ROOT closes, and so writes, files that are still open while the process
// ends. A process that was forked gets a client of its own.

#ifndef HITHER_CLIENT_H
#define HITHER_CLIENT_H

#include <hither.h>

#include <TString.h>

#include <memory>

namespace HitherClient {

// A handle of the C library, freed with its function.
template <auto Free>
struct Freed {
   template <typename T>
   void operator()(T *handle) const
   {
      Free(handle);
   }
};
using File = std::unique_ptr<hither_file, Freed<hither_close>>;
using Entry = std::unique_ptr<hither_entry, Freed<hither_entry_free>>;
using List = std::unique_ptr<hither_list, Freed<hither_list_free>>;

// Receives the error of a call of the C library: pass the object where `hither_error **` is wanted.
class Failure {
public:
   Failure() = default;
   Failure(const Failure &) = delete;
   Failure &operator=(const Failure &) = delete;
   ~Failure() { hither_error_free(fError); }
   operator hither_error **()
   {
      hither_error_free(fError);
      fError = nullptr;
      return &fError;
   }
   const char *Message() const { return hither_error_message(fError); }
   hither_kind Kind() const { return hither_error_kind(fError); }

private:
   hither_error *fError = nullptr;
};

// Returns the client of this process. NULL after an error.
hither_client *Get(hither_error **error);

// Returns the URL that the library knows: without ROOT's anchor, which names a member of an archive,
// and without its option filetype=raw; xroot:// is root://.
TString Url(const char *name);

// Returns the URL for messages: without user, password and query, which may be secrets.
TString Shown(TString url);

// Opens a file, of which the library fetches what ROOT announces, and nothing of a tree that it has
// not. Size, head and tail come in one request. NULL after an error.
File Open(const TString &url, hither_error **error);

// Opens a file once more, in the version that is read: reads of both fail once the file has changed.
// The library fetches the baskets of the branches that are read ahead, as TTreeCache would, if
// `branches`, else as for Open. NULL after an error.
File OpenAgain(const hither_file *file, bool branches, hither_error **error);

} // namespace HitherClient

#endif
