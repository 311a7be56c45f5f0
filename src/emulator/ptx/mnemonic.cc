// Names from the .def files, and the split of spellings into opcode, modifiers and types.
#include "emulator/ptx/mnemonic.h"

#include <charconv>
#include <unordered_map>
#include <utility>

namespace flamia::emulator::ptx {
namespace {

constexpr std::string_view kOpcodeTexts[] = {
#define FLAMIA_PTX_OPCODE(name, text) text,
#include "emulator/ptx/opcodes.def"
#undef FLAMIA_PTX_OPCODE
};

constexpr std::string_view kModifierTexts[] = {
#define FLAMIA_PTX_MODIFIER(name, text) text,
#include "emulator/ptx/modifiers.def"
#undef FLAMIA_PTX_MODIFIER
};

struct TypeInfo {
  std::string_view text;
  uint32_t bits;
};

constexpr TypeInfo kTypes[] = {
#define FLAMIA_PTX_TYPE(name, text, bits) {text, bits},
#include "emulator/ptx/scalar_types.def"
#undef FLAMIA_PTX_TYPE
};

constexpr std::string_view kSpecialTexts[] = {
#define FLAMIA_PTX_SPECIAL(name, text) text,
#include "emulator/ptx/special_registers.def"
#undef FLAMIA_PTX_SPECIAL
};

template <typename Enumerator>
using Names = std::unordered_map<std::string_view, Enumerator>;

template <typename Enumerator, size_t Count>
Names<Enumerator> index_names(const std::string_view (&texts)[Count]) {
  Names<Enumerator> names;
  for (size_t i = 0; i < Count; ++i) names.emplace(texts[i], static_cast<Enumerator>(i));
  return names;
}

template <typename Enumerator>
std::optional<Enumerator> find(const Names<Enumerator>& names, std::string_view text) {
  const auto found = names.find(text);
  if (found == names.end()) return std::nullopt;
  return found->second;
}

bool take_number(std::string_view* text, char letter, uint16_t* number) {
  if (text->empty() || text->front() != letter) return false;
  const auto [end, error] = std::from_chars(text->data() + 1, text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

/// m64n256k32.
std::optional<MatrixShape> matrix_shape(std::string_view text) {
  MatrixShape shape;
  if (take_number(&text, 'm', &shape.m) && take_number(&text, 'n', &shape.n) &&
      take_number(&text, 'k', &shape.k) && text.empty()) {
    return shape;
  }
  return std::nullopt;
}

/// The longest prefix of whole components that is an opcode; its length, 0 if there is none.
size_t match_opcode(std::string_view text, Opcode* opcode) {
  static const Names<Opcode> names = index_names<Opcode>(kOpcodeTexts);
  size_t longest = 0;
  size_t end = 0;
  constexpr int kMostComponents = 6;
  for (int component = 0; component < kMostComponents && end < text.size(); ++component) {
    end = text.find('.', component == 0 ? 0 : end + 1);
    end = end == std::string_view::npos ? text.size() : end;
    const std::optional<Opcode> found = find(names, text.substr(0, end));
    if (found) {
      *opcode = *found;
      longest = end;
    }
  }
  return longest;
}

}  // namespace

std::string_view opcode_text(Opcode opcode) { return kOpcodeTexts[static_cast<size_t>(opcode)]; }
std::string_view modifier_text(Modifier modifier) {
  return kModifierTexts[static_cast<size_t>(modifier)];
}
std::string_view type_text(ScalarType type) { return kTypes[static_cast<size_t>(type)].text; }
uint32_t type_bits(ScalarType type) { return kTypes[static_cast<size_t>(type)].bits; }
std::string_view special_text(SpecialRegister special) {
  return kSpecialTexts[static_cast<size_t>(special)];
}

std::optional<ScalarType> find_type(std::string_view text) {
  static const Names<ScalarType> names = [] {
    Names<ScalarType> all;
    for (size_t i = 1; i < std::size(kTypes); ++i) {
      all.emplace(kTypes[i].text, static_cast<ScalarType>(i));
    }
    return all;
  }();
  return find(names, text);
}

std::optional<SpecialRegister> find_special(std::string_view text) {
  static const Names<SpecialRegister> names = index_names<SpecialRegister>(kSpecialTexts);
  return find(names, text);
}

MnemonicError decode_mnemonic(std::string_view text, Mnemonic* mnemonic, std::string_view* wrong) {
  static const Names<Modifier> modifiers = index_names<Modifier>(kModifierTexts);
  *mnemonic = {};
  size_t at = match_opcode(text, &mnemonic->opcode);
  if (at == 0) {
    *wrong = text.substr(0, text.find('.'));
    return MnemonicError::kOpcode;
  }
  while (at < text.size()) {
    const size_t begin = at + 1;
    const size_t dot = text.find('.', begin);
    at = dot == std::string_view::npos ? text.size() : dot;
    const std::string_view component = text.substr(begin, at - begin);
    *wrong = component;
    if (const std::optional<ScalarType> type = find_type(component)) {
      if (!mnemonic->types.push(*type)) return MnemonicError::kTooMany;
    } else if (const std::optional<Modifier> modifier = find(modifiers, component);
               modifier && *modifier != Modifier::kShapeMnk) {
      if (!mnemonic->modifiers.push(*modifier)) return MnemonicError::kTooMany;
    } else if (const std::optional<MatrixShape> shape = matrix_shape(component)) {
      mnemonic->shape = *shape;
      if (!mnemonic->modifiers.push(Modifier::kShapeMnk)) return MnemonicError::kTooMany;
    } else {
      return MnemonicError::kModifier;
    }
  }
  return MnemonicError::kNone;
}

}  // namespace flamia::emulator::ptx
