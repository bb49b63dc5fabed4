#include "attention/contract_strict_checks.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A page that the step writes, and the row that writes it.
struct WrittenPage {
  int32_t page = 0;
  int32_t row = 0;
  int64_t entry = 0;  // column of the page table

  bool operator<(const WrittenPage& other) const {
    return std::tie(page, row, entry) <
           std::tie(other.page, other.row, other.entry);
  }
};

// One pass over a batch whose sizes are right.
class StrictPass {
 public:
  StrictPass(const RaggedBatch& batch, const StrictRules& rules)
      : batch_(batch), rules_(rules) {}

  std::vector<std::string> Run() {
    CheckRowCount();
    CheckQueryOffsets();
    CheckLengths();
    CheckPageIds();
    if (rules_.written_pages == WrittenPages::kAreWrittenNow) {
      CheckWrittenPages();
    }
    if (rules_.scheduler_layout) {
      CheckUnusedEntries();
      CheckRowOrder();
      CheckPadding();
    }
    return std::move(findings_);
  }

 private:
  bool done() const { return findings_.size() >= rules_.max_findings; }
  template <typename... Parts>
  void Add(const Parts&... parts) {
    if (!done()) findings_.push_back(absl::StrCat(parts...));
  }

  // Rows that can be looked at, also where num_seqs is out of range.
  int32_t rows() const {
    return std::clamp(batch_.num_seqs, 0, batch_.max_num_seqs);
  }
  int64_t q_len(int32_t row) const {
    return int64_t{batch_.cu_q_lens[row + 1]} - batch_.cu_q_lens[row];
  }
  int64_t kv_len(int32_t row) const { return batch_.kv_lens[row]; }
  int64_t row_capacity() const {
    return int64_t{batch_.pages_per_seq} * batch_.page_size;
  }
  // Whether both lengths of `row` make sense, so that its pages can be judged.
  bool lengths_hold(int32_t row) const {
    return 0 < q_len(row) && q_len(row) <= kv_len(row) &&
           kv_len(row) <= row_capacity();
  }
  // Entries of `row` in use, also where kv_len is out of range.
  int64_t used_entries(int32_t row) const {
    const int64_t len = std::clamp<int64_t>(kv_len(row), 0, row_capacity());
    return CeilDivide(len, batch_.page_size);
  }
  // Whether no query of `row` sees a key of its `entry`-th page.
  bool before_window(int32_t row, int64_t entry) const {
    if (!rules_.sliding_window.has_value()) return false;
    const int64_t first_query = kv_len(row) - q_len(row);
    const int64_t last_key = (entry + 1) * batch_.page_size - 1;
    return last_key <= first_query - *rules_.sliding_window;
  }

  void CheckRowCount();
  void CheckQueryOffsets();
  void CheckLengths();
  void CheckPageIds();
  void CheckWrittenPages();
  void CheckUnusedEntries();
  void CheckRowOrder();
  void CheckPadding();

  std::vector<WrittenPage> SortedWrittenPages() const;

  const RaggedBatch& batch_;
  const StrictRules& rules_;
  std::vector<std::string> findings_;
};

void StrictPass::CheckRowCount() {
  if (batch_.num_seqs < 1) {
    Add("num_seqs ", batch_.num_seqs,
        " is below 1; a step that has nothing to "
        "run must not be launched");
  } else if (batch_.num_seqs > batch_.max_num_seqs) {
    Add("num_seqs ", batch_.num_seqs, " exceeds max_num_seqs ",
        batch_.max_num_seqs,
        "; run fewer rows a step or build a taller page "
        "table");
  }
}

void StrictPass::CheckQueryOffsets() {
  if (batch_.cu_q_lens[0] != 0) {
    Add("cu_q_lens[0] is ", batch_.cu_q_lens[0],
        " and must be 0: queries "
        "before it belong to no row; start the prefix sum at 0");
  }
  for (int32_t row = 0; row < rows() && !done(); ++row) {
    if (q_len(row) > 0) continue;
    if (q_len(row) == 0 && rules_.allow_empty_rows) continue;
    Add("row ", row, " has q_len ", q_len(row), " (cu_q_lens ",
        batch_.cu_q_lens[row], " to ", batch_.cu_q_lens[row + 1],
        ") and must have at least 1 query; leave rows without queries out of "
        "the first num_seqs");
  }
  if (batch_.cu_q_lens[rows()] > batch_.max_num_batched_tokens) {
    Add("cu_q_lens[", rows(), "] is ", batch_.cu_q_lens[rows()],
        " and exceeds max_num_batched_tokens ", batch_.max_num_batched_tokens,
        "; schedule fewer tokens or use a larger token bucket");
  }
}

void StrictPass::CheckLengths() {
  for (int32_t row = 0; row < rows() && !done(); ++row) {
    const bool may_be_empty = rules_.allow_empty_rows && q_len(row) == 0;
    if (kv_len(row) < (may_be_empty ? 0 : 1)) {
      Add("row ", row, " has kv_len ", kv_len(row),
          " and must have at least "
          "1: kv_lens counts this step's tokens too");
    } else if (kv_len(row) < q_len(row)) {
      Add("row ", row, " has kv_len ", kv_len(row), " below its q_len ",
          q_len(row), "; kv_lens counts this step's tokens too");
    }
    if (kv_len(row) > row_capacity()) {
      Add("row ", row, " has kv_len ", kv_len(row), " and its ",
          batch_.pages_per_seq, " pages of ", batch_.page_size, " tokens hold ",
          row_capacity(), "; raise pages_per_seq to ",
          CeilDivide(kv_len(row), batch_.page_size), " or shorten the row");
    }
  }
}

void StrictPass::CheckPageIds() {
  for (int32_t row = 0; row < rows() && !done(); ++row) {
    const std::span<const int32_t> pages = batch_.pages(row);
    for (int64_t entry = 0; entry < used_entries(row) && !done(); ++entry) {
      const int32_t page = pages[static_cast<size_t>(entry)];
      if (page >= 1 && page < batch_.total_num_pages) continue;
      if (page == 0 && before_window(row, entry)) continue;
      Add("row ", row, " names page ", page, " for tokens ",
          entry * batch_.page_size, " to ",
          std::min((entry + 1) * batch_.page_size, kv_len(row)) - 1,
          "; ids in use must be in [1, ", batch_.total_num_pages, ")",
          page == 0 ? ": page 0 is the null page, give the row one of its own"
                    : "; name a page that exists");
    }
  }
}

std::vector<WrittenPage> StrictPass::SortedWrittenPages() const {
  std::vector<WrittenPage> written;
  for (int32_t row = 0; row < rows(); ++row) {
    if (!lengths_hold(row)) continue;
    const int64_t first = (kv_len(row) - q_len(row)) / batch_.page_size;
    for (int64_t entry = first; entry < used_entries(row); ++entry) {
      const int32_t page = batch_.pages(row)[static_cast<size_t>(entry)];
      // Ids out of range, and the null page, are findings of their own.
      if (page < 1 || page >= batch_.total_num_pages) continue;
      written.push_back({.page = page, .row = row, .entry = entry});
    }
  }
  std::sort(written.begin(), written.end());
  return written;
}

void StrictPass::CheckWrittenPages() {
  if (done()) return;
  const std::vector<WrittenPage> written = SortedWrittenPages();
  for (size_t i = 1; i < written.size() && !done(); ++i) {
    const WrittenPage& a = written[i - 1];
    const WrittenPage& b = written[i];
    if (a.page != b.page) continue;
    if (a.row == b.row) {
      Add("page ", a.page, " is written twice by row ", a.row, ", as entries ",
          a.entry, " and ", b.entry,
          ", and may be written once; give the row "
          "a page for each entry");
    } else {
      Add("page ", a.page, " is written by rows ", a.row, " and ", b.row,
          " and may be written by one; copy the shared page before a row "
          "writes to it");
    }
  }
  // Entries before a row's first written one are only read by it.
  for (int32_t row = 0; row < rows() && !done(); ++row) {
    if (!lengths_hold(row)) continue;
    const int64_t first = (kv_len(row) - q_len(row)) / batch_.page_size;
    for (int64_t entry = 0; entry < first && !done(); ++entry) {
      if (before_window(row, entry)) continue;
      const int32_t page = batch_.pages(row)[static_cast<size_t>(entry)];
      const auto writer = std::lower_bound(written.begin(), written.end(),
                                           WrittenPage{.page = page});
      if (writer == written.end() || writer->page != page) continue;
      Add("page ", page, " is read by row ", row, " for tokens ",
          entry * batch_.page_size, " to ", (entry + 1) * batch_.page_size - 1,
          " while row ", writer->row,
          " writes it in the same step, so it may be read before it is "
          "written; share a page only after the step that wrote it");
    }
  }
}

void StrictPass::CheckUnusedEntries() {
  for (int32_t row = 0; row < rows() && !done(); ++row) {
    const std::span<const int32_t> pages = batch_.pages(row);
    for (int64_t entry = used_entries(row);
         entry < batch_.pages_per_seq && !done(); ++entry) {
      const int32_t page = pages[static_cast<size_t>(entry)];
      if (page == 0) continue;
      Add("row ", row, " names page ", page, " in entry ", entry, ", past the ",
          used_entries(row), " that kv_len ", kv_len(row),
          " uses, where the null page 0 belongs; clear entries when a row "
          "gives up pages");
    }
  }
}

void StrictPass::CheckRowOrder() {
  int32_t decodes = 0;
  while (decodes < rows() && q_len(decodes) == 1) ++decodes;
  for (int32_t row = decodes; row < rows() && !done(); ++row) {
    if (q_len(row) != 1) continue;
    Add("row ", row, " has q_len 1 and comes after row ", decodes, " of q_len ",
        q_len(decodes), "; rows with one query token come first");
  }
  const std::array<int32_t, 3> expected = {decodes, decodes, batch_.num_seqs};
  if (batch_.distribution != expected) {
    Add("distribution is (", batch_.distribution[0], ", ",
        batch_.distribution[1], ", ", batch_.distribution[2], ") and must be (",
        expected[0], ", ", expected[1], ", ", expected[2],
        "): the leading rows with one query token, twice, then num_seqs");
  }
}

void StrictPass::CheckPadding() {
  const int32_t last = batch_.cu_q_lens[rows()];
  for (int32_t row = rows(); row < batch_.max_num_seqs && !done(); ++row) {
    if (batch_.kv_lens[row] != 0) {
      Add("row ", row, " is past num_seqs ", batch_.num_seqs,
          " and has kv_len ", batch_.kv_lens[row],
          ", which must be 0; clear kv_lens of rows that "
          "leave the batch");
    }
    if (batch_.cu_q_lens[row + 1] != last) {
      Add("cu_q_lens[", row + 1, "] is past num_seqs ", batch_.num_seqs,
          " and is ", batch_.cu_q_lens[row + 1], ", which must repeat ", last,
          ", the last value in use");
    }
  }
}

}  // namespace

std::optional<std::string> SizeFinding(const RaggedBatch& batch) {
  struct Dimension {
    const char* name;
    int32_t value;
    int32_t least;
  };
  for (const Dimension& d :
       {Dimension{"max_num_seqs", batch.max_num_seqs, 0},
        Dimension{"pages_per_seq", batch.pages_per_seq, 0},
        Dimension{"page_size", batch.page_size, 1},
        Dimension{"total_num_pages", batch.total_num_pages, 0},
        Dimension{"max_num_batched_tokens", batch.max_num_batched_tokens, 0}}) {
    if (d.value >= d.least) continue;
    return absl::StrCat(d.name, " is ", d.value, " and must be at least ",
                        d.least, "; describe the arrays that the batch views");
  }
  struct Array {
    const char* name;
    size_t size;
    int64_t expected;
    const char* shape;
  };
  const int64_t rows = batch.max_num_seqs;
  for (const Array& a :
       {Array{"kv_lens", batch.kv_lens.size(), rows, "max_num_seqs"},
        Array{"page_indices", batch.page_indices.size(),
              rows * batch.pages_per_seq, "max_num_seqs * pages_per_seq"},
        Array{"cu_q_lens", batch.cu_q_lens.size(), rows + 1,
              "max_num_seqs + 1"}}) {
    if (static_cast<int64_t>(a.size) == a.expected) continue;
    return absl::StrCat(a.name, " has ", a.size, " elements and must have ",
                        a.expected, " (", a.shape,
                        "); view the whole array that the kernel reads");
  }
  return std::nullopt;
}

std::vector<std::string> StrictFindings(const RaggedBatch& batch,
                                        const StrictRules& rules) {
  if (std::optional<std::string> finding = SizeFinding(batch)) {
    return {*std::move(finding)};
  }
  return StrictPass(batch, rules).Run();
}

}  // namespace tidewheel
