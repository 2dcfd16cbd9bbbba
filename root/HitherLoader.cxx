// The library that .rootrc names: it loads the plug-in that was built for the ROOT of this process.
//
// A class that derives from ROOT's fits only the ROOT that it was compiled against, but .rootrc is read
// by every ROOT of a user. So there is a build for each ROOT, in a folder whose name is a hash of
// path, size and date of its libCore. `hither root-setup` computes the same (root_setup/build.rs): a
// ROOT that was moved or updated has no build, rather than a wrong one.

#include <cinttypes>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <sys/stat.h>

namespace {

int FindCore(dl_phdr_info *module, size_t, void *found)
{
   const char *const slash = strrchr(module->dlpi_name, '/');
   if (!slash || strncmp(slash, "/libCore.so", strlen("/libCore.so")) != 0)
      return 0;
   *static_cast<std::string *>(found) = module->dlpi_name;
   return 1;
}

std::string RealPath(const std::string &path)
{
   char real[PATH_MAX];
   return realpath(path.c_str(), real) ? real : path;
}

// FNV-1a, 64 bits, of "PATH\nSIZE\nSECONDS".
std::string BuildOf(const std::string &core)
{
   struct stat known = {};
   stat(core.c_str(), &known);
   const std::string text =
      core + "\n" + std::to_string(known.st_size) + "\n" + std::to_string(known.st_mtim.tv_sec);
   uint64_t hash = 0xcbf29ce484222325;
   for (const unsigned char byte : text)
      hash = (hash ^ byte) * 0x100000001b3;
   char name[17];
   snprintf(name, sizeof name, "%016" PRIx64, hash);
   return name;
}

[[gnu::constructor]] void Load()
{
   std::string core;
   dl_iterate_phdr(FindCore, &core);
   core = RealPath(core);
   Dl_info own = {};
   dladdr(reinterpret_cast<void *>(&BuildOf), &own);
   const std::string path = own.dli_fname ? own.dli_fname : "";
   const std::string library = path.substr(0, path.rfind('/')) + "/" + BuildOf(core) + "/libHitherFile.so";
   if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return;
   struct stat known = {};
   if (stat(library.c_str(), &known) == 0)
      fprintf(stderr, "Error in <hither>: %s\n", dlerror());
   else
      fprintf(stderr,
              "Error in <hither>: the plug-in is not built for the ROOT of %s: run `hither root-setup` with its "
              "root-config in PATH, or `hither root-setup --remove`\n",
              core.c_str());
}

} // namespace
