// A TFile over hither: TFile::Open of http(s), dav(s), root(s) and s3 URLs.
//
// Reading: each call of ROOT is one call of the library. Vector reads (ReadBuffers), which TTreeCache
// makes, are one vector read; announcements (ReadBufferAsync, and ReadBuffers without a buffer) are
// hints. Writing: to a local spool file, which Close puts to the URL.

#ifndef ROOT_THitherFile
#define ROOT_THitherFile

#include <TFile.h>

#include <memory>

struct HitherFileState;
struct hither_file;

class __attribute__((visibility("default"))) THitherFile : public TFile {
public:
   // `option` is that of TFile::Open. A file that cannot be opened is a zombie, and the reason is
   // printed.
   THitherFile(const char *url, Option_t *option = "", const char *title = "",
               Int_t compress = ROOT::RCompressionSetting::EDefaults::kUseCompiledDefault, Int_t netopt = 0);
   ~THitherFile() override;

   // Puts what was written to the URL, unless there is another file than the one that was fetched
   // for an update, or one at all that was to be created, or the spool file is incomplete because
   // something could not be written to it. If that fails, says so, sets the bit kWriteError and keeps
   // the spool file.
   void Close(Option_t *option = "") override;
   Long64_t GetSize() const override;
   Bool_t ReadBuffer(char *buffer, Int_t length) override;
   Bool_t ReadBuffer(char *buffer, Long64_t position, Int_t length) override;
   Bool_t ReadBuffers(char *buffer, Long64_t *positions, Int_t *lengths, Int_t count) override;
   Bool_t ReadBufferAsync(Long64_t position, Int_t length) override;
   // Changes between READ and UPDATE. The file is read anew, in its present version.
   Int_t ReOpen(Option_t *mode) override;
   void Seek(Long64_t offset, ERelativeTo position = kBeg) override;
   // Makes the cache of a tree announce its baskets and take them from the library as they arrive,
   // in place of a copy of its own that it fills before the first is used.
   void SetCacheRead(TFileCacheRead *cache, TObject *tree = nullptr, ECacheAction action = kDisconnect) override;

protected:
   Int_t SysClose(Int_t descriptor) override;
   Int_t SysSync(Int_t descriptor) override;
   Int_t SysWrite(Int_t descriptor, const void *buffer, Int_t length) override;

private:
   bool OpenToRead();
   bool OpenToWrite();
   void PutSpool();
   void DropSpool();
   void NoteFailure(const char *action);
   const hither_file *Reader();
   void Count(Long64_t bytes, double start);

   std::unique_ptr<HitherFileState> fState; //!

   ClassDefOverride(THitherFile, 0) // A file that is read and written by hither
};

#endif
