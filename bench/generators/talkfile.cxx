// Writes the tree of the talk's file; talkfile.py decides the branches.
//
// Compiled by ROOT's interpreter. All random numbers come from one splitmix64 stream with a fixed
// seed, so the same ROOT version writes the same bytes (the file is opened with ROOT's
// "reproducible" option, which fixes dates and the UUID).
#pragma cling optimize(2)
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>
#include "TFile.h"
#include "TTree.h"

namespace talk {

// One uniform 64-bit number per call (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators").
struct Random {
   std::uint64_t state;
   std::uint64_t next()
   {
      std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      return z ^ (z >> 31);
   }
};

// Inverse distribution functions, tabulated: a draw is one table look-up.
constexpr int kTable = 1 << 14;
struct Tables {
   std::vector<float> exponential, gaussian;
   Tables() : exponential(kTable), gaussian(kTable)
   {
      for (int i = 0; i < kTable; ++i) {
         const double u = (i + 0.5) / kTable;
         exponential[i] = static_cast<float>(-std::log(u));
         // Logistic instead of normal: it has a closed form, and the tails of filler do not matter.
         gaussian[i] = static_cast<float>(std::log(u / (1 - u)) * 0.5513);
      }
   }
};

enum Kind { kSparse, kGaussian, kExponential, kCount, kFlag, kCounter };

struct Branch {
   std::string name;
   char type = 'F';       // ROOT's leaf letters: F float, D double, I int
   int length = 1;        // elements per entry
   int kind = kGaussian;
   double scale = 1;      // mean or width, in the branch's own unit
   double step = 0.25;    // quantum
   double occupancy = 1;  // share of non-zero elements (kSparse)
   std::vector<char> buffer;
};

// Entries between two changes of the beam's intensity: fewer than fill a basket, so basket sizes
// vary.
constexpr long long kSpill = 90;

inline double draw(const Branch &b, Random &random, const Tables &tables, long long entry, double intensity)
{
   const std::uint64_t bits = random.next();
   const int cell = static_cast<int>(bits & (kTable - 1));
   const double uniform = static_cast<double>(bits >> 40) / static_cast<double>(1 << 24);
   switch (b.kind) {
   case kSparse:
      // A cell without a hit stays zero; one with a hit holds at least one quantum.
      if (uniform >= b.occupancy * intensity) return 0;
      return b.step * (1 + std::floor(tables.exponential[cell] * b.scale / b.step));
   case kGaussian: return b.step * std::floor(tables.gaussian[cell] * b.scale * intensity / b.step + 0.5);
   case kExponential: return b.step * std::floor(tables.exponential[cell] * b.scale * intensity / b.step);
   case kCount: return std::floor(tables.exponential[cell] * b.scale * intensity);
   case kFlag: return uniform < b.occupancy * intensity ? 1 : 0;
   default: return static_cast<double>(static_cast<long long>(static_cast<double>(entry) * b.scale));
   }
}

inline void store(Branch &b, int element, double value)
{
   if (b.type == 'F') {
      const float v = static_cast<float>(value);
      std::memcpy(&b.buffer[element * 4], &v, 4);
   } else if (b.type == 'D') {
      std::memcpy(&b.buffer[element * 8], &value, 8);
   } else {
      const std::int32_t v = static_cast<std::int32_t>(value);
      std::memcpy(&b.buffer[element * 4], &v, 4);
   }
}

std::vector<Branch> branches;

void add(const char *name, char type, int length, int kind, double scale, double step, double occupancy)
{
   Branch b;
   b.name = name;
   b.type = type;
   b.length = length;
   b.kind = kind;
   b.scale = scale;
   b.step = step;
   b.occupancy = occupancy;
   b.buffer.resize(static_cast<std::size_t>(length) * (type == 'D' ? 8 : 4));
   branches.push_back(b);
}

// Writes tree "T"; returns 0, or 1 if the file cannot be created.
int write(const char *path, long long entries, int basket_bytes)
{
   TFile file((std::string(path) + "?reproducible=talk.root").c_str(), "RECREATE", "the talk's file", 101);
   if (file.IsZombie()) return 1;
   TTree tree("T", "one query to a 280 MB tree");
   tree.SetAutoFlush(0);
   tree.SetAutoSave(0);
   for (auto &b : branches) {
      const std::string dimension = b.length > 1 ? "[" + std::to_string(b.length) + "]" : "";
      tree.Branch(b.name.c_str(), b.buffer.data(), (b.name + dimension + "/" + b.type).c_str(), basket_bytes);
   }
   Random random{20070903};
   const Tables tables;
   double intensity = 1;
   for (long long entry = 0; entry < entries; ++entry) {
      if (entry % kSpill == 0) intensity = 0.6 + 0.8 * static_cast<double>(random.next() >> 11) / 9007199254740992.0;
      for (auto &b : branches)
         for (int i = 0; i < b.length; ++i) store(b, i, draw(b, random, tables, entry, intensity));
      tree.Fill();
   }
   file.Write();
   file.Close();
   return 0;
}

} // namespace talk
