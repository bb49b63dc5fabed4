#include "attention/stablehlo/region_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"

namespace tidewheel {

std::string TypeList(const Values& values) {
  return absl::StrJoin(values, ", ", [](std::string* out, const Value& v) {
    out->append(v.type.ToString());
  });
}

RegionWriter::RegionWriter() : regions_(1) {}

const std::string& RegionWriter::text() const {
  TIDEWHEEL_CHECK_EQ(regions_.size(), 1u);
  return regions_[0].text;
}

std::string RegionWriter::NewName() { return absl::StrCat("%", next_name_++); }

Value RegionWriter::Define(const TensorType& type, std::string name) {
  const int id = static_cast<int>(definitions_.size());
  definitions_.push_back({.name = std::move(name),
                          .type = type,
                          .depth = regions_.size() - 1,
                          .in_scope = true,
                          .constant = {}});
  return {id, type};
}

void RegionWriter::AppendLine(absl::string_view line) {
  regions_.back().text.append(2 * regions_.size() + 2, ' ');
  absl::StrAppend(&regions_.back().text, line, "\n");
}

Value RegionWriter::Append(const TensorType& type, absl::string_view text) {
  const Value v = Define(type, NewName());
  AppendLine(absl::StrCat(definition(v.id).name, " = ", text));
  return v;
}

Value RegionWriter::AppendConstant(const TensorType& type,
                                   const std::string& literal) {
  const std::string text = absl::StrCat("stablehlo.constant dense<", literal,
                                        "> : ", type.ToString());
  const auto found = regions_.back().constants.find(text);
  if (found != regions_.back().constants.end()) return {found->second, type};
  const Value v = Append(type, text);
  definition(v.id).constant = literal;
  regions_.back().constants[text] = v.id;
  return v;
}

std::string RegionWriter::Name(const Value& v) {
  TIDEWHEEL_CHECK_GE(v.id, 0);
  return definition(Localize(v.id)).name;
}

std::string RegionWriter::Operands(const Values& values) {
  std::string names;
  for (const Value& v : values) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", Name(v));
  }
  return names;
}

int RegionWriter::Localize(int id) {
  const Definition found = definition(id);
  TIDEWHEEL_CHECK(found.in_scope);
  if (found.depth + 1 == regions_.size()) return id;
  if (!found.constant.empty()) {
    return AppendConstant(found.type, found.constant).id;
  }
  Loop& loop = loops_.back();
  const auto local = loop.local.find(id);
  if (local != loop.local.end()) return local->second;
  const Value argument = Define(found.type, NewName());
  loop.outer.push_back({id, found.type});
  loop.local[id] = argument.id;
  loop.arguments.push_back(argument.id);
  return argument.id;
}

std::string RegionWriter::WriteRegion(const std::function<void()>& write) {
  const size_t first = definitions_.size();
  regions_.emplace_back();
  write();
  std::string text = std::move(regions_.back().text);
  regions_.pop_back();
  // The loop's arguments are those of its other region too.
  const std::vector<int>& arguments = loops_.back().arguments;
  for (size_t i = first; i < definitions_.size(); ++i) {
    const int id = static_cast<int>(i);
    if (std::ranges::find(arguments, id) == arguments.end()) {
      definition(id).in_scope = false;
    }
  }
  return text;
}

Values RegionWriter::AppendLoop(const Values& init, const Condition& condition,
                                const Body& body) {
  TIDEWHEEL_CHECK_EQ(loops_.size() + 1, regions_.size());
  loops_.emplace_back();
  Values state;
  const std::string condition_text = WriteRegion([&] {
    for (const Value& v : init) {
      state.push_back(Define(v.type, NewName()));
      loops_.back().arguments.push_back(state.back().id);
    }
    const Value goes_on = condition(state);
    TIDEWHEEL_CHECK(goes_on.type == (TensorType{ElementType::kBool, {}}));
    AppendLine(
        absl::StrCat("stablehlo.return ", Name(goes_on), " : tensor<i1>"));
  });
  const std::string body_text = WriteRegion([&] {
    Values next = body(state);
    TIDEWHEEL_CHECK_EQ(next.size(), init.size());
    for (size_t i = 0; i < init.size(); ++i) {
      TIDEWHEEL_CHECK(next[i].type == init[i].type);
    }
    std::string names = Operands(next);  // May capture.
    const Values& outer = loops_.back().outer;
    for (const Value& v : outer) absl::StrAppend(&names, ", ", Name(v));
    next.insert(next.end(), outer.begin(), outer.end());
    AppendLine(absl::StrCat("stablehlo.return ", names, " : ", TypeList(next)));
  });
  return CloseLoop(init, condition_text, body_text);
}

Values RegionWriter::CloseLoop(const Values& init,
                               const std::string& condition_text,
                               const std::string& body_text) {
  const Loop loop = std::move(loops_.back());
  loops_.pop_back();
  Values operands = init;
  operands.insert(operands.end(), loop.outer.begin(), loop.outer.end());
  std::vector<std::string> bindings;
  for (size_t i = 0; i < operands.size(); ++i) {
    Definition& argument = definition(loop.arguments[i]);
    argument.in_scope = false;
    // A name may define a value, which moves the definitions.
    const std::string local = argument.name;
    bindings.push_back(absl::StrCat(local, " = ", Name(operands[i])));
  }
  const std::string name = NewName();
  AppendLine(absl::StrCat(name, ":", operands.size(), " = stablehlo.while(",
                          absl::StrJoin(bindings, ", "),
                          ") : ", TypeList(operands), " cond {"));
  absl::StrAppend(&regions_.back().text, condition_text);
  AppendLine("} do {");
  absl::StrAppend(&regions_.back().text, body_text);
  AppendLine("}");
  Values results;
  for (size_t i = 0; i < init.size(); ++i) {
    results.push_back(Define(init[i].type, absl::StrCat(name, "#", i)));
  }
  return results;
}

}  // namespace tidewheel
