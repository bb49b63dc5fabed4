#include "tests/sim/same_step_hazard.h"

#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"

namespace tidewheel {

absl::Status CheckNoRowReadsWhatAnotherWrites(const RaggedBatch& batch) {
  std::map<int32_t, int32_t> writers;  // of each page
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    const int32_t end = batch.kv_lens[row];
    for (int32_t i = end - batch.q_len(row); i < end; ++i) {
      const int32_t page = batch.pages(row)[i / batch.page_size];
      const auto [writer, is_new] = writers.try_emplace(page, row);
      if (!is_new && writer->second != row) {
        return absl::InternalError(absl::StrCat("rows ", writer->second,
                                                " and ", row, " write page ",
                                                page, " in one step"));
      }
    }
  }
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    for (int32_t i = 0; i < batch.kv_lens[row]; ++i) {
      const int32_t page = batch.pages(row)[i / batch.page_size];
      const auto writer = writers.find(page);
      if (writer != writers.end() && writer->second != row) {
        return absl::InternalError(
            absl::StrCat("row ", row, " reads page ", page, ", which row ",
                         writer->second, " writes in the same step"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
