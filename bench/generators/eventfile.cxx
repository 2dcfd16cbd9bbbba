// Writes and reads the events of eventfile.py. Compiled by ROOT's interpreter, after `open_url` of
// harness/pyroot.py; peers/columns/root_sum.py reads with the same code.
#pragma cling optimize(2)
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>
#include "TFile.h"
#include "TTree.h"
#include "TTreeCache.h"

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

struct Result {
   double open = 0, read = 0, sum = 0;
   long long values = -1, reads = 0, bytes = 0;
};

// Sums every second branch over all entries. cache < 0 keeps ROOT's default size of the cache.
Result sum(const char *url, bool web, long long cache)
{
   using Clock = std::chrono::steady_clock;
   const auto since = [](Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); };
   Result result;
   auto mark = Clock::now();
   std::unique_ptr<TFile> file(open_url(url, web));
   if (!file || file->IsZombie()) return result;
   auto tree = file->Get<TTree>("Events");
   if (!tree) return result;
   result.open = since(mark);
   mark = Clock::now();
   const int branches = tree->GetListOfBranches()->GetEntries();
   std::vector<std::vector<float>> buffers((branches + 1) / 2, std::vector<float>(kLength));
   if (cache >= 0) tree->SetCacheSize(cache);
   tree->SetBranchStatus("*", false);
   for (int b = 0; b < branches; b += 2) {
      tree->SetBranchStatus(name(b).c_str(), true);
      tree->SetBranchAddress(name(b).c_str(), buffers[b / 2].data());
      tree->AddBranchToCache(name(b).c_str(), true);
   }
   tree->StopCacheLearningPhase();
   result.values = 0;
   const long long entries = tree->GetEntries();
   for (long long entry = 0; entry < entries; ++entry) {
      if (tree->GetEntry(entry) <= 0) {
         result.values = -1;
         return result;
      }
      for (const auto &buffer : buffers)
         for (float value : buffer) result.sum += value;
      result.values += kLength;
   }
   result.read = since(mark);
   result.reads = file->GetReadCalls();
   result.bytes = file->GetBytesRead();
   return result;
}

} // namespace events
