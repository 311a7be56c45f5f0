// Formats are taken apart here and each conversion is left to snprintf with a checked type.
#include "emulator/execution/printing.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "base/message.h"

namespace flamia::emulator::execution {
namespace {

/// Reads the packed arguments in order.
class Arguments {
 public:
  Arguments(Warp* warp, uint32_t lane, uint64_t address)
      : warp_(warp), lane_(lane), address_(address) {}
  uint64_t next(uint32_t bytes) {
    address_ = (address_ + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    require(read_bytes(warp_->views[lane_], Space::kGeneric, address_, bytes, 1, &value), lane_);
    address_ += bytes;
    return value;
  }

 private:
  Warp* warp_;
  uint32_t lane_;
  uint64_t address_;
};

struct Conversion {
  std::string flags;  ///< with width and precision, without length
  char kind = 0;
  bool wide = false;  ///< l, ll, j, z, t: 64 bits
};

/// Reads the conversion after a percent sign; *place ends behind it.
Conversion take_conversion(const std::string& format, size_t* place, Arguments* arguments) {
  Conversion c;
  c.flags = "%";
  for (; *place < format.size(); ++*place) {
    const char at = format[*place];
    if (at == '*') {
      const int32_t number = static_cast<int32_t>(arguments->next(4));
      const bool precision = !c.flags.empty() && c.flags.back() == '.';
      if (precision && number < 0) {
        c.flags.pop_back();  // as if there were none
      } else {
        c.flags += std::to_string(number);
      }
    } else if (std::strchr("-+ #0123456789.", at) != nullptr) {
      c.flags += at;
    } else if (std::strchr("ljzt", at) != nullptr) {
      c.wide = true;
    } else if (at != 'h') {
      c.kind = at;
      ++*place;
      break;
    }
  }
  return c;
}

/// Width and precision within what the buffer holds; snprintf would work for minutes on others.
std::string bounded(const std::string& flags, size_t most) {
  std::string out;
  for (size_t i = 0; i < flags.size();) {
    if (flags[i] < '1' || flags[i] > '9') {
      out += flags[i++];
      continue;
    }
    size_t number = 0;
    for (; i < flags.size() && flags[i] >= '0' && flags[i] <= '9'; ++i) {
      number = std::min(most, number * 10 + static_cast<size_t>(flags[i] - '0'));
    }
    out += std::to_string(number);
  }
  return out;
}

std::string string_text(Warp& warp, uint32_t lane, uint64_t address) {
  return address == 0 ? "(null)" : read_text(warp, lane, address);
}

std::string number_text(const std::string& given, uint64_t value, bool is_float) {
  char buffer[512];
  const std::string format = bounded(given, sizeof buffer);
  int length = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (is_float) {
    length = std::snprintf(buffer, sizeof buffer, format.c_str(), std::bit_cast<double>(value));
  } else {
    length = std::snprintf(buffer, sizeof buffer, format.c_str(),
                           static_cast<unsigned long long>(value));
  }
#pragma GCC diagnostic pop
  if (length < 0) return {};
  return std::string(buffer, std::min(static_cast<size_t>(length), sizeof buffer - 1));
}

std::string padded(const std::string& flags, const std::string& text) {
  size_t width = 0;
  const bool left = flags.find('-') != std::string::npos;
  const size_t point = flags.find('.');
  for (const char c : flags.substr(0, point)) {
    if (c >= '0' && c <= '9')
      width = std::min<size_t>(width * 10 + static_cast<size_t>(c - '0'), 4096);
  }
  std::string out = text;
  if (point != std::string::npos) {
    out.resize(std::min<size_t>(out.size(), std::strtoul(flags.c_str() + point + 1, nullptr, 10)));
  }
  if (out.size() < width) out.insert(left ? out.size() : 0, width - out.size(), ' ');
  return out;
}

std::string converted(Warp& warp, uint32_t lane, const Conversion& c, Arguments* arguments) {
  switch (c.kind) {
    case 'd':
    case 'i': {
      const uint64_t raw = arguments->next(c.wide ? 8 : 4);
      const int64_t value = c.wide ? static_cast<int64_t>(raw) : int64_t{static_cast<int32_t>(raw)};
      return number_text(c.flags + "lld", static_cast<uint64_t>(value), false);
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return number_text(c.flags + "ll" + c.kind, arguments->next(c.wide ? 8 : 4), false);
    case 'c':
      return padded(c.flags, std::string(1, static_cast<char>(arguments->next(4))));
    case 'p':
      return padded(c.flags, hex(arguments->next(8)));
    case 's':
      return padded(c.flags, string_text(warp, lane, arguments->next(8)));
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return number_text(c.flags + c.kind, arguments->next(8), true);
    default:
      stop(fault_kind_name(FaultKind::kUnsupported),
           concat("vprintf: the conversion must be one of diuxXocpsfFeEgGaA; got ",
                  std::string(1, c.kind)),
           lane);
  }
}

}  // namespace

uint32_t print_formatted(Warp& warp, uint32_t lane, uint64_t format_address,
                         uint64_t argument_address) {
  const std::string format = read_text(warp, lane, format_address);
  Arguments arguments(&warp, lane, argument_address);
  std::string out;
  uint32_t count = 0;
  for (size_t place = 0; place < format.size();) {
    const char c = format[place++];
    if (c != '%') {
      out += c;
    } else if (place < format.size() && format[place] == '%') {
      out += '%';
      ++place;
    } else {
      out += converted(warp, lane, take_conversion(format, &place, &arguments), &arguments);
      ++count;
    }
  }
  warp.grid().report->printed += out;
  return count;
}

}  // namespace flamia::emulator::execution
