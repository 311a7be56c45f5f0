// A parsed PTX module as plain data: what the interpreter runs and what messages print.
// Depends on: the PTX ISA. Used by: the parser, which fills it; the interpreter; the runtime half,
// which places variables and parameters; control-flow analysis; messages.
// Every index in here is valid once parse() has returned ok; nothing needs to be checked again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flamia::emulator::ptx {

/// Base mnemonic, several components where PTX has them: "add", "cp.async.bulk.tensor".
enum class Opcode : uint16_t {
#define FLAMIA_PTX_OPCODE(name, text) name,
#include "emulator/ptx/opcodes.def"
#undef FLAMIA_PTX_OPCODE
};

/// A dotted suffix that is neither part of the mnemonic nor a type: "rn", "shared::cta", "v4".
/// Matrix shapes (m64n256k32) are one value, kShapeMnk; the numbers are in Instruction::shape.
enum class Modifier : uint16_t {
#define FLAMIA_PTX_MODIFIER(name, text) name,
#include "emulator/ptx/modifiers.def"
#undef FLAMIA_PTX_MODIFIER
};

/// Fundamental and instruction types; kNone where there is none. Packed types have their own value.
enum class ScalarType : uint8_t {
#define FLAMIA_PTX_TYPE(name, text, bits) name,
#include "emulator/ptx/scalar_types.def"
#undef FLAMIA_PTX_TYPE
};

/// Special registers without their component; %tid.y is kTid with Operand::component 1, %envreg7 is
/// kEnvreg with component 7.
enum class SpecialRegister : uint8_t {
#define FLAMIA_PTX_SPECIAL(name, text) name,
#include "emulator/ptx/special_registers.def"
#undef FLAMIA_PTX_SPECIAL
};

std::string_view opcode_text(Opcode opcode);
std::string_view modifier_text(Modifier modifier);
std::string_view type_text(ScalarType type);
std::string_view special_text(SpecialRegister special);
/// Width in bits of one value; 1 for pred, 4 for e2m1, 0 for kNone and opaque references.
uint32_t type_bits(ScalarType type);

/// A vector of at most Capacity values, stored in place.
template <typename Value, size_t Capacity>
class ShortList {
 public:
  bool push(Value value) {
    if (size_ == Capacity) return false;
    values_[size_++] = value;
    return true;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Value operator[](size_t i) const { return values_[i]; }
  const Value* begin() const { return values_.data(); }
  const Value* end() const { return values_.data() + size_; }
  bool contains(Value value) const {
    for (const Value mine : *this) {
      if (mine == value) return true;
    }
    return false;
  }

 private:
  std::array<Value, Capacity> values_{};
  uint8_t size_ = 0;
};

inline constexpr uint32_t kNoIndex = UINT32_MAX;

enum class StateSpace : uint8_t { kReg, kGlobal, kConst, kShared, kLocal, kParam, kTex };

/// What an Operand is. The fields that count are named here; the others are zero.
enum class OperandKind : uint8_t {
  kSink,         // `_`
  kRegister,     // index: register of the function; negated: written `!p`
  kImmediate,    // value: bit pattern; literal: how it was written
  kSpecial,      // special, component
  kVector,       // {a, b, ..}: first, count: elements (registers, immediates, sinks)
  kPair,         // `p|q`: first, count = 2 (registers or sinks)
  kList,         // (a, b, ..) of a call: first, count (registers, immediates, symbols)
  kAddress,      // [base + offset] or [base, {coordinates}, ..]: base, index, value: byte offset;
                 // first, count: what follows the first comma (a vector; im2col offsets)
  kSymbol,       // a variable: scope, index; value: byte offset (its address, for mov)
  kFunction,     // a function of the module: index
  kLabel,        // index: instruction of this function
  kBranchTable,  // index: Function::branch_tables (brx.idx)
  kCallTable,    // index: Function::call_tables (indirect call)
  kPrototype,    // index: Function::prototypes (indirect call)
};

/// Where a variable is looked up by its index.
enum class Scope : uint8_t {
  kModule,     // Module::variables
  kFunction,   // Function::variables (local, shared, and .param of calls)
  kParameter,  // Function::parameters
  kReturn,     // Function::returns
};

enum class AddressBase : uint8_t { kRegister, kSymbol, kImmediate };

enum class Literal : uint8_t { kInteger, kF32, kF64 };

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool negated = false;
  Scope scope = Scope::kModule;               // of a symbol, also as the base of an address
  AddressBase base = AddressBase::kRegister;  // kImmediate: value is the whole address
  Literal literal = Literal::kInteger;
  SpecialRegister special = SpecialRegister{};
  uint8_t component = 0;  // 0 x, 1 y, 2 z, 3 w, or a number
  uint32_t index = kNoIndex;
  int64_t value = 0;
  uint32_t first = 0;  // elements: Function::operands[first ..+count]
  uint32_t count = 0;
};

/// The bits of an immediate as a value of `type`: float literals are converted, integers truncated.
uint64_t immediate_bits(const Operand& operand, ScalarType type);

struct MatrixShape {
  uint16_t m = 0, n = 0, k = 0;
};

/// `call` always has three operands: returns (kList, often empty), the target (kFunction or a
/// register), arguments (kList); with a register target a fourth: kPrototype or kCallTable.
/// Elements of the lists are .param variables (kSymbol, Scope::kFunction), registers or immediates.
/// `bra` has one kLabel; `brx.idx` an index register and a kBranchTable.
struct Instruction {
  Opcode opcode{};
  bool guard_negated = false;
  uint8_t operand_count = 0;
  uint32_t guard = kNoIndex;          // predicate register, kNoIndex for none
  uint32_t first_operand = 0;         // in Function::operands
  uint32_t line = 0;                  // of the PTX text, from 1
  uint32_t location = kNoIndex;       // in Function::locations
  ShortList<ScalarType, 7> types;     // in order: cvt.rn.f16.f32 has f16, f32
  ShortList<Modifier, 12> modifiers;  // in order: both spaces of cp.async.bulk stay apart
  MatrixShape shape;                  // of kShapeMnk

  bool has(Modifier modifier) const { return modifiers.contains(modifier); }
  /// The i-th type, kNone beyond the last.
  ScalarType type(size_t i = 0) const { return i < types.size() ? types[i] : ScalarType{}; }
};

/// What stands at `offset` of a variable instead of bytes: the address of a symbol plus `addend`.
struct Relocation {
  uint64_t offset = 0;
  uint8_t bytes = 8;         // how many bytes are written
  uint8_t shift = 0;         // the value is shifted right by this before (mask forms: 0xFF00(f))
  bool is_function = false;  // index counts Module::functions, otherwise Module::variables
  bool is_generic = false;   // generic(symbol): a generic address, otherwise in its own space
  uint32_t index = 0;
  int64_t addend = 0;
};

enum class Linkage : uint8_t { kInternal, kVisible, kExtern, kWeak, kCommon };

struct Variable {
  std::string name;
  StateSpace space = StateSpace::kGlobal;
  Linkage linkage = Linkage::kInternal;
  ScalarType type{};        // of an element
  uint8_t vector = 1;       // 2 or 4 for .v2, .v4
  bool is_dynamic = false;  // .extern .shared without a size: at Function::dynamic_shared_offset
  bool is_managed = false;  // .attribute(.managed)
  uint32_t alignment = 1;   // bytes
  uint64_t bytes = 0;       // whole size, 0 if is_dynamic
  /// kLocal: in the frame of one call. kShared: from the start of static shared memory. kParam: in
  /// the frame of call arguments. kGlobal, kConst: not placed here.
  uint64_t offset = 0;
  uint32_t line = 0;
  std::vector<uint8_t> initial;  // leading bytes; the rest of the variable is zero
  std::vector<Relocation> relocations;
};

struct Parameter {
  std::string name;
  ScalarType type{};
  bool is_register = false;  // a .reg parameter (old ABI): `index` is its register
  bool is_pointer = false;   // .ptr
  uint32_t index = kNoIndex;
  uint32_t alignment = 1;
  uint32_t bytes = 0;
  uint32_t offset = 0;  // in the parameter space of the function
};

struct Register {
  std::string name;   // with its number: %rd17
  ScalarType type{};  // pred, b16, b32, f32, b128 ...
};

/// The signature of an indirect call (.callprototype).
struct Prototype {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Parameter> returns;
  bool is_noreturn = false;
};

struct BranchTable {
  std::string name;
  std::vector<uint32_t> targets;  // instructions (.branchtargets), functions (.calltargets)
};

struct Label {
  std::string name;
  uint32_t instruction = 0;
};

/// Source of the instructions that follow a .loc, for messages.
struct Location {
  uint32_t file = 0;  // SourceFile::number
  uint32_t line = 0;
  uint32_t column = 0;
};

struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;  // all 0: not given
};

/// Performance and launch directives; 0 or false: not given.
struct LaunchBounds {
  Dim3 max_threads;                  // .maxntid
  Dim3 required_threads;             // .reqntid
  Dim3 required_cluster;             // .reqnctapercluster
  uint32_t max_cluster_rank = 0;     // .maxclusterrank
  uint32_t min_ctas_per_sm = 0;      // .minnctapersm
  uint32_t max_registers = 0;        // .maxnreg
  bool explicit_cluster = false;     // .explicitcluster
  bool blocks_are_clusters = false;  // .blocksareclusters
};

struct Function {
  std::string name;
  Linkage linkage = Linkage::kInternal;
  bool is_entry = false;
  bool is_noreturn = false;
  bool has_body = false;         // false: a declaration (vprintf, __assertfail, malloc)
  uint32_t alias_of = kNoIndex;  // .alias: run that function instead
  uint32_t line = 0;
  LaunchBounds bounds;
  std::vector<Parameter> parameters;
  std::vector<Parameter> returns;
  uint32_t parameter_bytes = 0;
  uint32_t return_bytes = 0;
  /// Only registers that occur, in order of first use; indices are dense.
  std::vector<Register> registers;
  std::vector<Variable> variables;  // local, shared, and .param variables of the body
  uint64_t local_bytes = 0;         // frame of local variables of one call
  uint32_t local_alignment = 1;
  uint64_t call_parameter_bytes = 0;  // frame of .param variables of the body
  /// Entries: static shared memory of a CTA, with that of every function it may call.
  uint64_t shared_bytes = 0;
  uint64_t dynamic_shared_offset = 0;  // where .extern .shared arrays start, aligned for them
  /// The last one never falls through: `ret` is added where the text has none.
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::vector<Label> labels;  // ascending by instruction
  std::vector<BranchTable> branch_tables;
  std::vector<BranchTable> call_tables;
  std::vector<Prototype> prototypes;
  std::vector<Location> locations;
  std::vector<std::string> pragmas;

  std::span<const Operand> operands_of(const Instruction& instruction) const {
    return {operands.data() + instruction.first_operand, instruction.operand_count};
  }
  std::span<const Operand> elements_of(const Operand& operand) const {
    return {operands.data() + operand.first, operand.count};
  }
};

struct SourceFile {
  uint32_t number = 0;
  std::string name;
};

struct Module {
  uint32_t version_major = 0, version_minor = 0;
  std::string target;  // sm_90a
  uint32_t address_bits = 64;
  std::vector<Variable> variables;  // module scope: global, const, shared, texture
  std::vector<Function> functions;
  std::vector<SourceFile> files;

  /// Index by name, kNoIndex if there is none.
  uint32_t find_function(std::string_view name) const;
  uint32_t find_variable(std::string_view name) const;
};

}  // namespace flamia::emulator::ptx
