// A TSystem over hither: gSystem's functions about directories and files, for URLs.

#ifndef ROOT_THitherSystem
#define ROOT_THitherSystem

#include <TSystem.h>

#include <mutex>
#include <set>

class __attribute__((visibility("default"))) THitherSystem : public TSystem {
public:
   // ROOT passes a URL and false for root://, and nothing for other schemes. One object serves all.
   THitherSystem(const char *url = "", Bool_t owner = kFALSE);

   // Makes a directory. 0, -1 after an error.
   int MakeDirectory(const char *url) override;
   // Lists a directory. NULL after an error.
   void *OpenDirectory(const char *url) override;
   void FreeDirectory(void *directory) override;
   // The next name, valid until the directory is freed. NULL after the last one.
   const char *GetDirEntry(void *directory) override;
   // Kind, size and date. 0, 1 if there is no such file or after an error, which is printed.
   Int_t GetPathInfo(const char *url, FileStat_t &info) override;
   // False if the file exists. What may be done with it is not asked.
   Bool_t AccessPathName(const char *url, EAccessMode mode = kFileExists) override;
   // Removes a file or an empty directory. 0, -1 after an error.
   int Unlink(const char *url) override;
   Bool_t ConsistentWith(const char *url, void *directory) override;
   Bool_t IsPathLocal(const char *url) override;

private:
   std::mutex fMutex;           //!
   std::set<void *> fDirectories; //! Those that are open.

   ClassDefOverride(THitherSystem, 0) // Directories and files of servers, by hither
};

#endif
