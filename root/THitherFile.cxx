#include "THitherFile.h"

#include "HitherClient.h"

#include <TFileCacheRead.h>
#include <TROOT.h>
#include <TSeqCollection.h>
#include <TSystem.h>
#include <TTimeStamp.h>
#include <TVirtualPerfStats.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>
#include <vector>

struct HitherFileState {
   TString fUrl;
   // The file, while it is read.
   HitherClient::File fFile;
   // The same file, in the same version, with prefetching by branch, once it is read without a cache
   // of ROOT's. The two share their bytes in memory.
   HitherClient::File fBranches;
   Int_t fReadsWithoutCache = 0;
   // Path of the local file that is written. Empty while the file is read.
   TString fSpool;
   // The first reason why the spool file is incomplete; empty if there is none.
   TString fFailure;
   // Close may replace any file of that name, else only the version of fRead.
   bool fReplaceAny = false;
   // The file that was fetched for an update; none if there was none.
   HitherClient::Entry fRead;
};

namespace {

// Reads without a cache of ROOT's after which baskets are being read one by one: a file is opened, and a
// tree found, with fewer.
constexpr Int_t kFirstReads = 12;

// TFile::IsOpen wants a descriptor other than -1; there is none while the file is read.
constexpr Int_t kRemote = -2;

// ROOT gives announced ranges no date; it announces what it reads next.
constexpr double kSoon = 0;

// "NET" makes the base class leave opening to this one.
const char *BaseOption(Option_t *option)
{
   const bool isHidden = option && strstr(option, "_WITHOUT_GLOBALREGISTRATION");
   return isHidden ? "NET_WITHOUT_GLOBALREGISTRATION" : "NET";
}

TString Mode(Option_t *option)
{
   TString mode(option);
   mode.ToUpper();
   mode.ReplaceAll("_WITHOUT_GLOBALREGISTRATION", "");
   if (mode == "NEW")
      mode = "CREATE";
   return mode.IsNull() ? "READ" : mode;
}

// The member is ROOT's switch TFile.AsyncReading, which it reads for all files at once.
struct AnnouncingCache : TFileCacheRead {
   static void Enable(TFileCacheRead &cache) { cache.*(&AnnouncingCache::fAsyncReading) = kTRUE; }
};

double Now()
{
   return gPerfStats ? TTimeStamp().AsDouble() : 0.;
}

} // namespace

THitherFile::THitherFile(const char *url, Option_t *option, const char *title, Int_t compress, Int_t)
   : TFile(url, BaseOption(option), title, compress), fState(new HitherFileState)
{
   fState->fUrl = HitherClient::Url(url);
   fOption = Mode(option);
   bool isOpen = false;
   if (fOption == "READ")
      isOpen = OpenToRead();
   else if (fOption == "CREATE" || fOption == "RECREATE" || fOption == "UPDATE")
      isOpen = OpenToWrite();
   else
      Error("Open", "%s: option \"%s\" is not READ, NEW, CREATE, RECREATE or UPDATE",
            HitherClient::Shown(fState->fUrl).Data(), fOption.Data());
   if (!isOpen) {
      MakeZombie();
      gDirectory = gROOT;
      return;
   }
   const bool isNew = fOption == "CREATE" || fOption == "RECREATE";
   // As TFile has it: a file that was created is one that is written.
   if (isNew)
      fOption = "CREATE";
   TFile::Init(isNew);
}

THitherFile::~THitherFile()
{
   Close();
}

bool THitherFile::OpenToRead()
{
   HitherClient::Failure failure;
   fState->fFile = HitherClient::Open(fState->fUrl, failure);
   // Opening sends nothing, except what is prefetched: the size tells whether the file is there.
   if (!fState->fFile || hither_size(fState->fFile.get(), failure) < 0) {
      Error("Open", "%s", failure.Message());
      return false;
   }
   fState->fReadsWithoutCache = 0;
   fD = kRemote;
   fWritable = kFALSE;
   return true;
}

bool THitherFile::OpenToWrite()
{
   const char *const url = fState->fUrl.Data();
   const TString shown = HitherClient::Shown(fState->fUrl);
   HitherClient::Failure failure;
   hither_client *client = HitherClient::Get(failure);
   if (!client) {
      Error("Open", "%s", failure.Message());
      return false;
   }
   TString spool = TString::Format("%s/hither-XXXXXX", gSystem->TempDirectory());
   const Int_t descriptor = mkostemp(const_cast<char *>(spool.Data()), O_CLOEXEC);
   if (descriptor < 0) {
      Error("Open", "%s: cannot make the spool file %s: %s (TMPDIR names its folder)", shown.Data(),
            spool.Data(), strerror(errno));
      return false;
   }
   fState->fReplaceAny = fOption == "RECREATE";
   fState->fRead.reset();
   if (fOption != "RECREATE") {
      HitherClient::Entry found(hither_stat(client, url, failure));
      const bool isMissing = !found && failure.Kind() == HITHER_KIND_NOT_FOUND;
      bool isGood = true;
      if (fOption == "CREATE" && found) {
         Error("Open", "%s exists (RECREATE replaces it)", shown.Data());
         isGood = false;
      } else if (!found && !isMissing) {
         Error("Open", "%s", failure.Message());
         isGood = false;
      } else if (found && hither_get_file(client, url, spool, true, failure) < 0) {
         Error("Open", "%s", failure.Message());
         isGood = false;
      }
      if (!isGood) {
         close(descriptor);
         unlink(spool);
         return false;
      }
      if (fOption == "UPDATE" && isMissing)
         fOption = "CREATE";
      fState->fRead = std::move(found);
   }
   close(descriptor);
   // The copy may have replaced the file.
   fD = SysOpen(spool, O_RDWR | O_CLOEXEC, 0600);
   if (fD < 0) {
      Error("Open", "%s: cannot open the spool file %s: %s", shown.Data(), spool.Data(), strerror(errno));
      unlink(spool);
      fD = -1;
      return false;
   }
   fState->fSpool = spool;
   fState->fFailure = "";
   fRealName = spool;
   fWritable = kTRUE;
   return true;
}

void THitherFile::Close(Option_t *option)
{
   TFile::Close(option);
   if (!fState->fSpool.IsNull())
      IsZombie() ? DropSpool() : PutSpool();
   fState->fBranches.reset();
   fState->fFile.reset();
}

// What could not be opened for an update stays as it is on its server.
void THitherFile::DropSpool()
{
   unlink(fState->fSpool);
   fState->fSpool = "";
}

void THitherFile::PutSpool()
{
   const TString spool = fState->fSpool;
   fState->fSpool = "";
   const TString &incomplete = fState->fFailure;
   // ROOT goes on after an error, and a program may clear the bit.
   if (!incomplete.IsNull() || TestBit(kWriteError)) {
      SetBit(kWriteError);
      Error("Close", "%s is not written, because not all of it could be written to the spool file %s (%s); what could be is there",
            fState->fUrl.Data(), spool.Data(), incomplete.IsNull() ? "an earlier error" : incomplete.Data());
      return;
   }
   HitherClient::Failure failure;
   hither_client *client = HitherClient::Get(failure);
   const TString &url = fState->fUrl;
   // What another program has written meanwhile would be lost.
   const hither_entry *const read = fState->fRead.get();
   const bool isPut = client && (fState->fReplaceAny ? hither_put_file(client, url, spool, true, failure)
                                                     : hither_put_file_if(client, url, spool, read, failure)) == 0;
   if (!isPut) {
      SetBit(kWriteError);
      Error("Close", "%s; what was to be written is in %s", failure.Message(), spool.Data());
      return;
   }
   unlink(spool);
}

Int_t THitherFile::ReOpen(Option_t *option)
{
   const TString mode = Mode(option);
   if (mode != "READ" && mode != "UPDATE") {
      Error("ReOpen", "%s: option \"%s\" is not READ or UPDATE", HitherClient::Shown(fState->fUrl).Data(), mode.Data());
      return 1;
   }
   if (fWritable == (mode == "UPDATE"))
      return 1;
   Close();
   if (TestBit(kWriteError))
      return -1;
   // Close has noted the file as closed, once for each call; ROOT's destructor removes one note.
   gROOT->GetListOfClosedObjects()->Remove(this);
   // The file is read anew, in its present version. Close has dropped keys, objects and trees.
   const TFileCacheRead *const stale = fCacheRead;
   TFile::SetCacheRead(nullptr);
   delete stale;
   delete fProcessIDs;
   fProcessIDs = nullptr;
   fNProcessIDs = 0;
   fOption = mode;
   const bool isOpen = mode == "READ" ? OpenToRead() : OpenToWrite();
   if (!isOpen) {
      MakeZombie();
      return -1;
   }
   fInitDone = kFALSE;
   TFile::Init(kFALSE);
   return 0;
}

void THitherFile::NoteFailure(const char *action)
{
   if (fState->fFailure.IsNull())
      fState->fFailure.Form("%s: %s", action, strerror(errno));
}

Int_t THitherFile::SysClose(Int_t descriptor)
{
   if (descriptor == kRemote)
      return 0;
   const Int_t result = TFile::SysClose(descriptor);
   if (result < 0)
      NoteFailure("close");
   return result;
}

Int_t THitherFile::SysSync(Int_t descriptor)
{
   const Int_t result = TFile::SysSync(descriptor);
   if (result < 0)
      NoteFailure("sync");
   return result;
}

Int_t THitherFile::SysWrite(Int_t descriptor, const void *buffer, Int_t length)
{
   const Int_t written = TFile::SysWrite(descriptor, buffer, length);
   // ROOT does not go on after a part of it.
   if (written >= 0 && written < length)
      errno = ENOSPC;
   if (written != length)
      NoteFailure("write");
   return written;
}

Long64_t THitherFile::GetSize() const
{
   // The base class knows the size of a member of an archive, too.
   if (!fState->fFile || fArchiveOffset)
      return TFile::GetSize();
   HitherClient::Failure failure;
   return hither_size(fState->fFile.get(), failure);
}

void THitherFile::Seek(Long64_t offset, ERelativeTo position)
{
   if (fState->fFile)
      SetOffset(offset, position);
   else
      TFile::Seek(offset, position);
}

void THitherFile::SetCacheRead(TFileCacheRead *cache, TObject *tree, ECacheAction action)
{
   if (cache && fState->fFile && !cache->IsEnablePrefetching())
      AnnouncingCache::Enable(*cache);
   TFile::SetCacheRead(cache, tree, action);
}

Bool_t THitherFile::ReadBuffer(char *buffer, Long64_t position, Int_t length)
{
   if (!fState->fFile)
      return TFile::ReadBuffer(buffer, position, length);
   SetOffset(position);
   return ReadBuffer(buffer, length);
}

Bool_t THitherFile::ReadBuffer(char *buffer, Int_t length)
{
   if (!fState->fFile)
      return TFile::ReadBuffer(buffer, length);
   // A cache that announces takes its baskets by this very function.
   if (!fCacheRead || !fCacheRead->IsAsyncReading())
      if (const Int_t found = ReadBufferViaCache(buffer, length))
         return found == 2;
   const double start = Now();
   HitherClient::Failure failure;
   const int64_t read = hither_pread(Reader(), buffer, length, fOffset, failure);
   if (read != length) {
      if (read < 0)
         Error("ReadBuffer", "%s", failure.Message());
      else
         Error("ReadBuffer", "%s: at %lld the file ends after %lld of %d bytes",
               HitherClient::Shown(fState->fUrl).Data(), fOffset,
               static_cast<Long64_t>(read), length);
      return kTRUE;
   }
   fOffset += read;
   Count(read, start);
   return kFALSE;
}

// The handle for a single read. Without a cache of ROOT's (SetCacheSize(0)) nobody announces baskets, so
// that each would take a round trip: then the library finds out which branches are read.
const hither_file *THitherFile::Reader()
{
   if (fCacheRead)
      return fState->fFile.get();
   if (++fState->fReadsWithoutCache == kFirstReads)
      fState->fBranches = HitherClient::OpenAgain(fState->fFile.get(), true, nullptr);
   return fState->fBranches ? fState->fBranches.get() : fState->fFile.get();
}

Bool_t THitherFile::ReadBuffers(char *buffer, Long64_t *positions, Int_t *lengths, Int_t count)
{
   if (!fState->fFile)
      return TFile::ReadBuffers(buffer, positions, lengths, count);
   std::vector<hither_piece> pieces;
   pieces.reserve(count);
   char *next = buffer;
   for (Int_t at = 0; at < count; ++at) {
      pieces.push_back({static_cast<uint64_t>(positions[at] + fArchiveOffset), static_cast<size_t>(lengths[at]), next});
      // Without a buffer the ranges are announced.
      next = next ? next + lengths[at] : nullptr;
   }
   HitherClient::Failure failure;
   if (!buffer)
      return hither_hint_new(fState->fFile.get(), pieces.data(), pieces.size(), kSoon, nullptr, failure) < 0;
   const double start = Now();
   const int64_t read = hither_preadv(fState->fFile.get(), pieces.data(), pieces.size(), failure);
   if (read < 0) {
      Error("ReadBuffers", "%d ranges: %s", count, failure.Message());
      return kTRUE;
   }
   Count(read, start);
   return kFALSE;
}

Bool_t THitherFile::ReadBufferAsync(Long64_t position, Int_t length)
{
   if (!fState->fFile)
      return TFile::ReadBufferAsync(position, length);
   // Without a length ROOT asks whether ranges can be announced.
   return length > 0 && ReadBuffers(nullptr, &position, &length, 1);
}

void THitherFile::Count(Long64_t bytes, double start)
{
   fBytesRead += bytes;
   ++fReadCalls;
   fgBytesRead += bytes;
   ++fgReadCalls;
   if (gPerfStats)
      gPerfStats->FileReadEvent(this, bytes, start);
}
