#include "HitherClient.h"

#include <TEnv.h>

#include <mutex>
#include <unistd.h>

namespace {

// A file of ROOT ends with the keys, the descriptions of classes and the list of free space. With the
// first bytes this much fits into the first window of a new connection; more takes further round trips.
const char *const kTailBytes = "8000";

// Half of it is for what is announced: the caches of four trees (30 MB each by default), which do not
// hold the bytes themselves.
const char *const kCacheSize = "256M";

// Options of a file of which ROOT announces what it reads.
const char *const kAnnounced[] = {"tree_cache", "false", "tail", kTailBytes, nullptr};

TString WithoutOption(TString url, const char *option)
{
   const Ssiz_t query = url.First('?');
   const Ssiz_t at = query == kNPOS ? kNPOS : url.Index(option, query);
   if (at != kNPOS) {
      const Ssiz_t length = strlen(option);
      // With the separator that follows it, else the one before it.
      const bool isLast = at + length >= url.Length();
      url.Remove(isLast ? at - 1 : at, length + 1);
   }
   return url;
}

} // namespace

hither_client *HitherClient::Get(hither_error **error)
{
   static std::mutex mutex;
   static hither_client *client = nullptr;
   static pid_t process = 0;
   const std::lock_guard<std::mutex> lock(mutex);
   if (!client || process != getpid()) {
      const char *const options[] = {"cache", gEnv->GetValue("Hither.Cache", kCacheSize), nullptr};
      client = hither_client_new(options, error);
      process = getpid();
   }
   return client;
}

TString HitherClient::Url(const char *name)
{
   TString url(name);
   const Ssiz_t anchor = url.Last('#');
   if (anchor != kNPOS)
      url.Remove(anchor);
   if (url.BeginsWith("xroot"))
      url.Remove(0, 1);
   return WithoutOption(url, "filetype=raw");
}

TString HitherClient::Shown(TString url)
{
   const Ssiz_t query = url.First('?');
   if (query != kNPOS)
      url.Remove(query);
   const Ssiz_t scheme = url.Index("://");
   if (scheme == kNPOS)
      return url;
   const Ssiz_t host = scheme + 3;
   const Ssiz_t path = url.Index("/", host);
   const Ssiz_t at = TString(url(0, path == kNPOS ? url.Length() : path)).Last('@');
   if (at != kNPOS)
      url.Remove(host, at + 1 - host);
   return url;
}

HitherClient::File HitherClient::Open(const TString &url, hither_error **error)
{
   hither_client *client = Get(error);
   return File(client ? hither_open_with(client, url, kAnnounced, error) : nullptr);
}

HitherClient::File HitherClient::OpenAgain(const hither_file *file, bool branches, hither_error **error)
{
   return File(hither_open_again(file, branches ? nullptr : kAnnounced, error));
}
