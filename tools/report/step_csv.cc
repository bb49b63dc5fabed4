#include "tools/report/step_csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/number_text.h"

namespace tidewheel {

void WriteStepCsvHeader(OutputFile& file) {
  file.Write(
      "step,start,end,sequences,decodes,query_tokens,kv_tokens,"
      "tokens_generated,waiting,running,lent_pages,cached_pages,free_pages,"
      "used_slots,preemptions_so_far,bound,weights_ms,matmul_ms,kv_read_ms,"
      "attention_ms,collectives_ms,overhead_ms,total_ms\n");
}

void WriteStepCsvLine(const StepRecord& step, OutputFile& file) {
  const StepPlan& plan = step.plan;
  const StepTime& time = step.time;
  const auto ms = [](double seconds) {
    return absl::StrFormat(",%.4f", seconds * 1e3);
  };
  file.Write(absl::StrCat(
      plan.step_id, ",", SecondsText(step.start_us), ",",
      SecondsText(step.end_us), ",", plan.batch.num_seqs, ",",
      plan.batch.distribution[0], ",", plan.batch.total_q_tokens(), ",",
      plan.kv_tokens, ",", plan.num_logits, ",", step.num_waiting, ",",
      step.num_running, ",", step.pages.lent_pages, ",",
      step.pages.cached_pages, ",", step.pages.free_pages, ",", step.used_slots,
      ",", step.preemptions, ",", StepBoundName(time.bound)));
  file.Write(absl::StrCat(ms(time.weights_s), ms(time.matmul_s),
                          ms(time.kv_read_s), ms(time.attention_s),
                          ms(time.collectives_s), ms(time.overhead_s),
                          ms(time.total_s), "\n"));
}

}  // namespace tidewheel
