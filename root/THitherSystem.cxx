#include "THitherSystem.h"

#include "HitherClient.h"

#include <TError.h>

#include <string_view>

namespace {

constexpr const char *kSchemes[] = {"http://", "https://", "dav://", "davs://", "root://", "roots://", "xroot://", "s3://"};

bool IsOurs(std::string_view url)
{
   for (const std::string_view scheme : kSchemes)
      if (url.substr(0, scheme.size()) == scheme)
         return true;
   return false;
}

int Failed(const char *what, const HitherClient::Failure &failure)
{
   Error(what, "%s", failure.Message());
   return -1;
}

HitherClient::Entry Stat(const TString &url, HitherClient::Failure &failure)
{
   hither_client *client = HitherClient::Get(failure);
   return HitherClient::Entry(client ? hither_stat(client, url, failure) : nullptr);
}

} // namespace

// The leading "-" tells TSystem that this is not the one of the process.
THitherSystem::THitherSystem(const char *, Bool_t) : TSystem("-hither", "Files and directories of servers")
{
   SetName("hither");
}

int THitherSystem::MakeDirectory(const char *name)
{
   const TString url = HitherClient::Url(name);
   HitherClient::Failure failure;
   hither_client *client = HitherClient::Get(failure);
   if (!client || hither_mkdir(client, url, failure) < 0)
      return Failed("THitherSystem::MakeDirectory", failure);
   return 0;
}

void *THitherSystem::OpenDirectory(const char *name)
{
   const TString url = HitherClient::Url(name);
   HitherClient::Failure failure;
   hither_client *client = HitherClient::Get(failure);
   hither_list *list = client ? hither_list_new(client, url, failure) : nullptr;
   if (!list) {
      Failed("THitherSystem::OpenDirectory", failure);
      return nullptr;
   }
   const std::lock_guard<std::mutex> lock(fMutex);
   fDirectories.insert(list);
   return list;
}

void THitherSystem::FreeDirectory(void *directory)
{
   const std::lock_guard<std::mutex> lock(fMutex);
   if (fDirectories.erase(directory))
      hither_list_free(static_cast<hither_list *>(directory));
}

const char *THitherSystem::GetDirEntry(void *directory)
{
   const hither_entry *entry = hither_list_next(static_cast<hither_list *>(directory));
   return entry ? hither_entry_name(entry) : nullptr;
}

Int_t THitherSystem::GetPathInfo(const char *name, FileStat_t &info)
{
   const TString url = HitherClient::Url(name);
   HitherClient::Failure failure;
   const HitherClient::Entry entry = Stat(url, failure);
   if (!entry) {
      if (failure.Kind() != HITHER_KIND_NOT_FOUND)
         Failed("THitherSystem::GetPathInfo", failure);
      return 1;
   }
   const hither_file_kind kind = hither_entry_kind(entry.get());
   info = FileStat_t();
   info.fMode = kind == HITHER_FILE_KIND_DIRECTORY ? kS_IFDIR : kind == HITHER_FILE_KIND_FILE ? kS_IFREG : 0;
   info.fMode |= kS_IRUSR | kS_IWUSR;
   info.fIsLink = kind == HITHER_FILE_KIND_LINK;
   info.fSize = hither_entry_size(entry.get());
   info.fMtime = static_cast<Long_t>(hither_entry_modified(entry.get()));
   info.fUrl = url;
   return 0;
}

Bool_t THitherSystem::AccessPathName(const char *url, EAccessMode)
{
   FileStat_t info;
   return GetPathInfo(url, info) != 0;
}

int THitherSystem::Unlink(const char *name)
{
   const TString url = HitherClient::Url(name);
   HitherClient::Failure failure;
   hither_client *client = HitherClient::Get(failure);
   if (!client || hither_remove(client, url, false, failure) < 0)
      return Failed("THitherSystem::Unlink", failure);
   return 0;
}

Bool_t THitherSystem::ConsistentWith(const char *url, void *directory)
{
   if (url && IsOurs(url))
      return kTRUE;
   const std::lock_guard<std::mutex> lock(fMutex);
   return directory && fDirectories.count(directory);
}

Bool_t THitherSystem::IsPathLocal(const char *)
{
   return kFALSE;
}
