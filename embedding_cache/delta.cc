#include "embedding_cache/delta.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "embedding_cache/bytes.h"

namespace mstrain::embedding_cache {
namespace {

constexpr std::string_view kDeltaMagic = "MSECDEL1";
constexpr uint32_t kRows = 1;
constexpr uint32_t kTombstones = 2;
constexpr uint32_t kEnd = 0xffffffffU;
constexpr size_t kBlockRows = 8192;

std::string print_head(const DeltaHead& head) {
  OrderedJson json;
  json["since"] = head.since;
  json["since_step"] = head.since_step;
  json["step"] = head.step;
  json["with_state"] = head.with_state;
  put_line(json, head.abandoned, "at", head.at);
  json["tables"] = OrderedJson::array();
  for (const DeltaTable& table : head.tables) {
    json["tables"].push_back({{"name", table.name},
                              {"schema", table.schema},
                              {"width", table.width},
                              {"row_bytes", table.row_bytes}});
  }
  return json.dump();
}

DeltaHead parse_head(std::string_view text, const std::string& path) {
  const Json json = parse_json(text, path);
  DeltaHead head;
  try {
    head.since = json.at("since").get<uint64_t>();
    head.since_step = json.at("since_step").get<uint64_t>();
    head.step = json.at("step").get<uint64_t>();
    head.with_state = json.at("with_state").get<bool>();
    take_line(json, head.abandoned, "at", head.at);
    for (const Json& table : json.at("tables")) {
      head.tables.push_back({.name = table.at("name").get<std::string>(),
                             .schema = table.at("schema").get<std::string>(),
                             .width = table.at("width").get<uint32_t>(),
                             .row_bytes = table.at("row_bytes").get<uint32_t>()});
      const DeltaTable& last = head.tables.back();
      if (last.width == 0 || last.row_bytes > (1U << 20) || last.width > last.row_bytes / 4) {
        throw IoError(fmt::format("{}: its head states an impossible row", path));
      }
    }
  } catch (const Json::exception&) {
    throw IoError(fmt::format("{}: its head lacks a field or has one of a wrong type", path));
  }
  return head;
}

}  // namespace

void check_line(const DeltaHead& head, const std::string& path, const char* who, CommitAt has) {
  const auto abandoned = head.abandoned.find(has.id);
  check(head.since == 0 || has.id == 0 || abandoned == head.abandoned.end() ||
            abandoned->second != has.step,
        "{}: of another line of the run, which has gone back to what was before commit {} of step "
        "{}; this {} comes from that one; expected a delta of its line, or a new {} and an export "
        "of everything",
        path, has.id, has.step, who, who);
}

DeltaWriter::DeltaWriter(FileSystem& files, const std::string& path, const DeltaHead& head)
    : file_(files, path), head_(head) {
  const std::string text = print_head(head);
  std::string out(kDeltaMagic);
  put(out, static_cast<uint32_t>(text.size()));
  write(out + text);
}

void DeltaWriter::write(std::string_view bytes) {
  file_.append(bytes);
  crc_ = crc32c(as_bytes(bytes), crc_);
}

void DeltaWriter::flush() {
  if (pending_ > 0) {
    std::string head;
    put(head, table_);
    put(head, kind_);
    put(head, pending_);
    write(head);
    write(ids_);
    write(payload_);
  }
  ids_.clear();
  payload_.clear();
  pending_ = 0;
}

void DeltaWriter::add(uint32_t table, Id id, const std::byte* record) {
  if (table != table_ || kind_ != kRows || pending_ == kBlockRows) {
    flush();
    table_ = table;
    kind_ = kRows;
  }
  put(ids_, id);
  payload_.append(reinterpret_cast<const char*>(record + (head_.with_state ? 0 : kHeaderBytes)),
                  head_.tables[table].row_bytes);
  ++pending_;
  ++rows_;
}

void DeltaWriter::add_tombstone(uint32_t table, Id id) {
  if (table != table_ || kind_ != kTombstones || pending_ == kBlockRows) {
    flush();
    table_ = table;
    kind_ = kTombstones;
  }
  put(ids_, id);
  ++pending_;
  ++tombstones_;
}

void DeltaWriter::add_table(uint32_t table, RowStore& store, uint32_t record_bytes,
                            std::span<const std::pair<Id, uint64_t>> changed) {
  std::vector<Id> named;
  for (const auto& [id, step] : changed) {
    if (head_.since != 0 && step > head_.since_step) {
      named.push_back(id);
    }
  }
  std::sort(named.begin(), named.end());
  store.scan(table, head_.since_step, [&](Id id, const std::byte* record) {
    // A scan may show what such a row was before it went and an older one came.
    if (!std::binary_search(named.begin(), named.end(), id)) {
      add(table, id, record);
    }
  });
  flush();  // ids of a block ascend
  std::vector<std::byte> records(std::min(named.size(), kBlockRows) * record_bytes);
  std::vector<std::byte*> into;
  for (size_t i = 0; i < records.size(); i += record_bytes) {
    into.push_back(records.data() + i);
  }
  const auto found = std::make_unique<bool[]>(into.size());
  std::vector<Id> gone;
  for (size_t begin = 0; begin < named.size(); begin += kBlockRows) {
    const auto part = std::span(named).subspan(begin, std::min(kBlockRows, named.size() - begin));
    store.read(table, part, into.data(), found.get());
    for (size_t i = 0; i < part.size(); ++i) {
      if (found[i]) {
        add(table, part[i], into[i]);
      } else {
        gone.push_back(part[i]);
      }
    }
  }
  for (const Id id : gone) {
    add_tombstone(table, id);
  }
}

void DeltaWriter::finish() {
  flush();
  std::string end;
  put(end, kEnd);
  put(end, uint32_t{0});
  put(end, uint64_t{0});
  write(end);
  std::string crc;
  put(crc, crc_);
  file_.append(crc);
  file_.commit();
}

DeltaReader::DeltaReader(FileSystem& files, const std::string& path)
    : path_(path), file_(files.map(path)) {
  ByteReader in(file_->bytes(), path_);
  in.require(in.left() >= 12 + 16 + 4 && in.take_text(8) == kDeltaMagic, "not a delta of rows");
  const std::span<const std::byte> checked = file_->bytes().first(file_->bytes().size() - 4);
  in.require(crc32c(checked) == ByteReader(file_->bytes().last(4), path_).take<uint32_t>(),
             "does not match its checksum");
  const auto length = in.take<uint32_t>();
  in.require(length <= checked.size() - 12, "its head is cut short");
  head_ = parse_head(in.take_text(length), path_);
  body_ = checked.subspan(12 + size_t{length});
  walk(nullptr);
}

void DeltaReader::read(const DeltaVisitor& visit) const { walk(&visit); }

void DeltaReader::walk(const DeltaVisitor* visit) const {
  ByteReader in(body_, path_);
  std::vector<Id> ids;
  for (;;) {
    const auto table = in.take<uint32_t>();
    const auto kind = in.take<uint32_t>();
    const auto count = in.take<uint64_t>();
    if (table == kEnd) {
      in.require(in.left() == 0, "has bytes behind its end");
      return;
    }
    in.require(table < head_.tables.size(), "names a table that its head lacks");
    in.require(kind == kRows || kind == kTombstones, "has a block of an unknown kind");
    const uint64_t row_bytes = kind == kRows ? head_.tables[table].row_bytes : 0;
    in.require(count > 0 && count <= in.left() / (8 + row_bytes), "a block is cut short");
    ids.resize(count);
    std::memcpy(ids.data(), in.take_bytes(count * 8).data(), count * 8);
    for (size_t i = 1; i < ids.size(); ++i) {
      in.require(ids[i - 1] < ids[i], "ids of a block do not ascend");
    }
    const std::byte* rows = in.take_bytes(count * row_bytes).data();
    if (visit != nullptr) {
      (*visit)(table, ids, kind == kRows ? rows : nullptr);
    }
  }
}

}  // namespace mstrain::embedding_cache
