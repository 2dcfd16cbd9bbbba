// Writes the events of nanofile.py. Compiled by ROOT's interpreter.
#pragma cling optimize(2)
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>
#include "TFile.h"
#include "TROOT.h"
#include "TTree.h"

namespace nanofile {

// One uniform 64-bit number per call (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators").
inline std::uint64_t next(std::uint64_t &state)
{
   std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
   z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
   z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
   return z ^ (z >> 31);
}

inline double uniform(std::uint64_t &state)
{
   return (static_cast<double>(next(state) >> 12) + 0.5) / 4503599627370496.0;
}

// A measurement with its last digits dropped, as experiments store it.
inline float reduced(double value, int mantissa)
{
   float single = static_cast<float>(value);
   std::uint32_t bits;
   std::memcpy(&bits, &single, 4);
   bits &= 0xffffffffu << (23 - mantissa);
   std::memcpy(&single, &bits, 4);
   return single;
}

constexpr int kMaxItems = 64;

// A branch: one value for each item of its collection, or one for each event.
struct Column {
   char type;
   int kind;
   float floats[kMaxItems];
   int ints[kMaxItems];
   unsigned char bytes[kMaxItems];
   bool bools[kMaxItems];

   void *address()
   {
      switch (type) {
      case 'F': return floats;
      case 'I': return ints;
      case 'b': return bytes;
      default: return bools;
      }
   }

   void fill(int count, std::uint64_t &state)
   {
      for (int i = 0; i < count; ++i) {
         const double u = uniform(state);
         switch (type) {
         case 'F':
            // Momenta, angles, and discriminators that are often zero.
            if (kind % 3 == 0) floats[i] = reduced(-20 * std::log(u), 10);
            else if (kind % 3 == 1) floats[i] = reduced(5 * u - 2.5, 12);
            else floats[i] = u < 0.4 ? 0 : reduced(u * u, 8);
            break;
         case 'I': ints[i] = static_cast<int>(40 * u * u) - 1; break;
         case 'b': bytes[i] = static_cast<unsigned char>(8 * u * u); break;
         default: bools[i] = u < 0.1 * (kind % 7); break;
         }
      }
   }
};

struct Collection {
   std::string name;
   double mean;
   int count = 0;
   std::vector<std::unique_ptr<Column>> columns;
};

// `columns` are names and types, "Muon_pt/F"; those of a collection follow its counter,
// "nMuon/2.5", which gives the mean number of items. Columns before the first counter, and those
// after "n/0", have one value for each event.
int write(const char *path, long long entries, int compression, const std::vector<std::string> &columns)
{
   ROOT::EnableImplicitMT(2);
   TFile file(path, "RECREATE", "events", compression);
   if (file.IsZombie()) return 1;
   TTree tree("Events", "an analysis format: collections, flags");
   std::vector<std::unique_ptr<Collection>> collections;
   collections.push_back(std::make_unique<Collection>());
   int kind = 0;
   for (const auto &text : columns) {
      const auto slash = text.find('/');
      const auto name = text.substr(0, slash);
      const auto rest = text.substr(slash + 1);
      if (name == "n") {
         collections.push_back(std::make_unique<Collection>());
      } else if (name[0] == 'n' && rest.find_first_of("FIbO") == std::string::npos) {
         collections.push_back(std::make_unique<Collection>());
         collections.back()->name = name;
         collections.back()->mean = std::stod(rest);
         tree.Branch(name.c_str(), &collections.back()->count, (name + "/I").c_str());
      } else {
         auto &collection = *collections.back();
         collection.columns.push_back(std::make_unique<Column>());
         auto &column = *collection.columns.back();
         column.type = rest[0];
         column.kind = kind++;
         const auto dimension = collection.name.empty() ? "" : "[" + collection.name + "]";
         tree.Branch(name.c_str(), column.address(), (name + dimension + "/" + rest).c_str());
      }
   }
   std::uint64_t state = 500;
   for (long long entry = 0; entry < entries; ++entry) {
      for (auto &collection : collections) {
         int count = 1;
         if (!collection->name.empty()) {
            count = static_cast<int>(-std::log(uniform(state)) * (collection->mean + 0.5));
            collection->count = count = count < kMaxItems ? count : kMaxItems;
         }
         for (auto &column : collection->columns) column->fill(count, state);
      }
      tree.Fill();
   }
   file.Write();
   file.Close();
   return 0;
}

} // namespace nanofile
