#include "tools/report/capacity_section.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/byte_size.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

class CapacityTable {
 public:
  explicit CapacityTable(std::string caption) {
    table_.caption = std::move(caption);
  }

  void Bytes(std::string label, int64_t bytes, std::string remark = "") {
    if (remark.empty()) remark = FormatByteSize(bytes);
    Add(std::move(label), absl::StrCat(WithThousands(bytes), " B"),
        std::move(remark));
  }
  void Count(std::string label, int64_t count, absl::string_view unit,
             std::string remark = "") {
    Add(std::move(label), absl::StrCat(WithThousands(count), " ", unit),
        std::move(remark));
  }
  const HtmlTable& table() const { return table_; }

 private:
  void Add(std::string label, std::string value, std::string remark) {
    table_.rows.push_back({std::move(label), HtmlCell::Number(std::move(value)),
                           std::move(remark)});
  }

  HtmlTable table_;
};

std::string TokenRemark(const ServerPlan& plan) {
  const KvCacheShape& kv = plan.kv;
  std::string remark =
      absl::StrFormat("%d layers x %d K and V heads x %d x %d B",
                      kv.options().num_layers, kv.stored_combined_heads(),
                      kv.stored_head_dim(), KvDtypeBytes(kv.options().dtype));
  const int64_t padding = kv.bytes_per_token() - kv.unpadded_bytes_per_token();
  if (padding > 0) {
    absl::StrAppend(&remark, ", ",
                    AsPercent(static_cast<double>(padding) /
                              static_cast<double>(kv.bytes_per_token())),
                    " of it padding");
  }
  return remark;
}

void AddHbmBar(const CapacityPlan& c, HtmlPage& page) {
  const auto part = [](std::string name, int64_t bytes) {
    return BarPart{std::move(name), static_cast<double>(bytes),
                   FormatByteSize(bytes)};
  };
  // Explicit pages may be more than the memory has room for.
  const int64_t left =
      c.hbm_bytes - c.weight_bytes - c.reserve_bytes - c.kv_bytes;
  page.AddBar("hbm", "HBM of a device",
              left < 0 ? absl::StrCat("The pages asked for exceed the memory "
                                      "by ",
                                      FormatByteSize(-left), ".")
                       : "What the memory of each device holds.",
              {part("KV pages", c.kv_bytes), part("weights", c.weight_bytes),
               part("reserve for activations", c.reserve_bytes),
               part("not used", std::max<int64_t>(left, 0))});
}

}  // namespace

void AddCapacitySection(const ServingSetup& setup, HtmlPage& page) {
  const ServerPlan& plan = setup.plan;
  const CapacityPlan& c = plan.capacity;
  page.AddHeading("Arithmetic of capacity");
  page.BeginGrid();
  AddHbmBar(c, page);
  CapacityTable memory("Memory of a device");
  memory.Bytes("HBM", c.hbm_bytes);
  memory.Bytes(absl::StrFormat("x utilisation %g", c.hbm_utilization),
               c.budget_bytes);
  memory.Bytes("- weights", c.weight_bytes);
  memory.Bytes("- reserve", c.reserve_bytes,
               plan.reserve_is_estimate
                   ? absl::StrCat("activations of ",
                                  WithThousands(plan.max_num_batched_tokens),
                                  " tokens, estimated")
                   : "as given");
  memory.Bytes("= for KV pages", c.kv_budget_bytes);
  memory.Bytes("KV of a token", c.bytes_per_token, TokenRemark(plan));
  memory.Count("x page size", c.page_size, "tokens",
               plan.page_size_is_chosen
                   ? "chosen: the smallest from 16 whose table fits"
                   : "as given");
  memory.Bytes("= KV of a page", c.bytes_per_page);
  memory.Count("pages", c.total_num_pages, "pages",
               absl::StrCat(FormatByteSize(c.kv_bytes), ", ",
                            FormatByteSize(c.unused_bytes), " left"));
  memory.Count("- null page", c.total_num_pages - c.usable_num_pages, "page",
               "page 0 is never lent");
  memory.Count("= usable pages", c.usable_num_pages, "pages");
  memory.Count("= usable tokens", c.usable_tokens, "tokens");
  CapacityTable table("Page table");
  table.Count("max_num_seqs", plan.max_num_seqs, "rows");
  table.Count("pages_per_seq", plan.pages_per_seq, "pages",
              absl::StrCat("max_model_len ", WithThousands(plan.max_model_len),
                           " / page size ", plan.page_size));
  table.Bytes(
      "scalar memory", plan.smem_bytes,
      plan.smem_limit_bytes > 0
          ? absl::StrCat("of ", WithThousands(plan.smem_limit_bytes), " B")
          : "without a limit");
  table.Count("longest request", plan.longest_request_tokens, "tokens",
              absl::StrFormat("%.2f requests of max_model_len fit at once",
                              plan.longest_requests_at_once));
  page.AddTable(table.table());
  page.EndGrid();
  page.AddTable(memory.table());
}

}  // namespace tidewheel
