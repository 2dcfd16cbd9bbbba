// Writes the events of eventfile.py. Compiled by ROOT's interpreter.
#pragma cling optimize(2)
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>
#include "TFile.h"
#include "TTree.h"

namespace events {

constexpr int kLength = 38;

inline std::string name(int branch) { return "b" + std::to_string(branch); }

// One uniform 64-bit number per call (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators").
inline std::uint64_t next(std::uint64_t &state)
{
   std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
   z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
   z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
   return z ^ (z >> 31);
}

// A measurement with its last digits dropped, as experiments store it: 11 bits of mantissa remain.
inline float reduced(float value)
{
   std::uint32_t bits;
   std::memcpy(&bits, &value, 4);
   bits &= 0xfffff000u;
   std::memcpy(&value, &bits, 4);
   return value;
}

int write(const char *path, long long entries, int branches)
{
   TFile file((std::string(path) + "?reproducible=events.root").c_str(), "RECREATE", "events", 101);
   if (file.IsZombie()) return 1;
   TTree tree("Events", "many columns of which a job reads half");
   std::vector<std::vector<float>> buffers(branches, std::vector<float>(kLength));
   for (int b = 0; b < branches; ++b)
      tree.Branch(name(b).c_str(), buffers[b].data(), (name(b) + "[" + std::to_string(kLength) + "]/F").c_str());
   std::uint64_t state = 700;
   for (long long entry = 0; entry < entries; ++entry) {
      for (int b = 0; b < branches; ++b)
         for (float &value : buffers[b]) {
            const double u = (static_cast<double>(next(state) >> 12) + 0.5) / 4503599627370496.0;
            value = reduced(static_cast<float>((1 + b) * -std::log(u)));
         }
      tree.Fill();
   }
   file.Write();
   file.Close();
   return 0;
}

} // namespace events
