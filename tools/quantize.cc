// flamia quantize: codes and scales of one tensor of a file.

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "flamia/attention.h"
#include "problem/names.h"
#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/option_parsing.h"
#include "tools/quantized_tensors.h"
#include "tools/tensor_file.h"

namespace flamia::tools {

namespace {

struct QuantizeArguments {
  std::string input;
  std::string tensor;
  std::string output;
  std::string report;
  std::optional<Role> role;
  std::optional<ContractionAxis> axis;
  Options options;
};

const char* role_name(Role role) {
  switch (role) {
    case Role::kQ:
      return "q";
    case Role::kK:
      return "k";
    case Role::kV:
      return "v";
    case Role::kDo:
      break;
  }
  return "do";
}

std::optional<Role> role_from_name(const std::string& text) {
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kDo}) {
    if (text == role_name(role)) return role;
  }
  return std::nullopt;
}

const char* axis_name(ContractionAxis axis) {
  return axis == ContractionAxis::kHeadDim ? "d" : "t";
}

// The representation for the wanted axis; the first one if the axis is not given.
Status find_representation(const QuantizeArguments& arguments, Role role,
                           Representation* representation) {
  std::string axes;
  for (const Representation& one : representations(arguments.options.path, role)) {
    if (!arguments.axis || one.axis == *arguments.axis || one.serves_both_axes) {
      *representation = one;
      return Status();
    }
    axes += axes.empty() ? axis_name(one.axis) : fmt::format(" or {}", axis_name(one.axis));
  }
  if (axes.empty()) {
    return bad_input("--recipe must be mxfp8, nvfp4 or all4bit; got {}",
                     name(arguments.options.path));
  }
  return bad_input("--axis must be {} for role {} of {}; got {}", axes, role_name(role),
                   name(arguments.options.path), axis_name(*arguments.axis));
}

// Lengths of a packed tensor: keys may have their own.
Status read_lengths(const TensorFile& file, Role role, HostTensor* lengths) {
  const bool key_side = role == Role::kK || role == Role::kV;
  const TensorInfo* own = key_side ? file.find("cu_seqlens_k") : nullptr;
  const TensorInfo* tensor = own != nullptr ? own : file.find("cu_seqlens");
  if (tensor == nullptr) {
    return bad_input("{}: tensor cu_seqlens must be there when the tensor has rank 3",
                     printable(file.path()));
  }
  const bool integer = tensor->type == ElementType::kI32 || tensor->type == ElementType::kI64;
  if (!integer || tensor->shape.size() != 1) {
    return bad_input("{}: tensor {} must be I32 or I64 [documents + 1]; it is {} {}",
                     printable(file.path()), printable(tensor->name), element_name(tensor->type),
                     shape_text(tensor->shape));
  }
  return file.read(*tensor, lengths);
}

Status read_input(const QuantizeArguments& arguments, const TensorFile& file, Role role,
                  HostTensor* input, HostTensor* lengths) {
  const TensorInfo* tensor = file.find(arguments.tensor);
  const std::string path = printable(arguments.input);
  const std::string shown = printable(arguments.tensor);
  if (tensor == nullptr) return bad_input("{}: tensor {} must be there", path, shown);
  if (tensor->type != ElementType::kBF16) {
    return bad_input("{}: tensor {} must be BF16; it is {}", path, shown,
                     element_name(tensor->type));
  }
  const size_t rank = tensor->shape.size();
  if (rank != 3 && rank != 4) {
    return bad_input(
        "{}: tensor {} must be [tokens, heads, head_dim] or [batch, length, heads, "
        "head_dim]; it is {}",
        path, shown, shape_text(tensor->shape));
  }
  if (rank == 3) {
    if (Status status = read_lengths(file, role, lengths); !status.ok()) return status;
  }
  return file.read(*tensor, input);
}

Status check_outputs(const QuantizeArguments& arguments) {
  for (const auto& [option, path] :
       {std::pair("--output", &arguments.output), std::pair("--report", &arguments.report)}) {
    if (path->empty()) continue;
    if (Status status = check_output_path(option, *path); !status.ok()) return status;
    if (same_file(*path, arguments.input)) {
      return bad_input("{} must not be the input file; got {}", option, printable(*path));
    }
  }
  if (arguments.output == arguments.report || same_file(arguments.output, arguments.report)) {
    return bad_input("--output and --report must be different files; got {} twice",
                     printable(arguments.output));
  }
  return Status();
}

Status write_report(const QuantizeArguments& arguments, Role role,
                    const Representation& representation, const QuantizedTensor& tensor) {
  if (arguments.report.empty()) return Status();
  nlohmann::ordered_json json;
  json["flamia"] = version();
  json["tensor"] = arguments.tensor;
  json["role"] = role_name(role);
  json["recipe"] = name(arguments.options.path);
  json["format"] = representation.format;
  json["axis"] = representation.serves_both_axes ? "both" : axis_name(representation.axis);
  json["safety"] = name(arguments.options.safety);
  json["shape"] = tensor.codes.shape();
  using Handler = nlohmann::ordered_json::error_handler_t;
  return write_file(arguments.report, json.dump(2, ' ', false, Handler::replace) + "\n");
}

Status quantize_file(const QuantizeArguments& arguments) {
  if (Status status = check_outputs(arguments); !status.ok()) return status;
  const std::optional<Role> role =
      arguments.role ? arguments.role : role_from_name(arguments.tensor);
  if (!role) {
    return bad_input("--role must be q, k, v or do when the tensor is named {}",
                     printable(arguments.tensor));
  }
  Representation representation;
  Status status = find_representation(arguments, *role, &representation);
  if (!status.ok()) return status;
  TensorFile file;
  if (status = file.open(arguments.input); !status.ok()) return status;
  HostTensor input;
  HostTensor lengths;
  status = read_input(arguments, file, *role, &input, &lengths);
  if (!status.ok()) return status;
  QuantizedTensor result;
  status =
      quantize_tensor(input, lengths.view(), *role, representation, arguments.options, &result);
  if (!status.ok()) return status;

  std::vector<NamedTensor> tensors = {{"codes", &result.codes}, {"exp", &result.exp}};
  if (representation.has_block_scales) tensors.push_back({"scales", &result.scales});
  if (status = write_tensor_file(arguments.output, tensors, file.metadata()); !status.ok()) {
    return status;
  }
  fmt::print("{} as {} of {}: {} codes {}, scales along {}\n", printable(arguments.tensor),
             role_name(*role), name(arguments.options.path), representation.format,
             shape_text(result.codes.shape()),
             representation.serves_both_axes                    ? "both axes"
             : representation.axis == ContractionAxis::kHeadDim ? "head_dim"
                                                                : "tokens");
  if (std::fflush(stdout) != 0) return failure("standard output: writing failed");
  return write_report(arguments, *role, representation, result);
}

void add_quantize_options(CLI::App& command, QuantizeArguments* arguments) {
  add_text(command, "--input", "Safetensors file", "FILE", &arguments->input)->required();
  add_text(command, "--tensor", "Name of a BF16 tensor in it", "NAME", &arguments->tensor)
      ->required();
  const auto set_role = [arguments](const std::string& text) {
    arguments->role = role_from_name(text);
    if (!arguments->role) {
      refuse_option("--role must be q, k, v or do; got " + printable(text));
    }
  };
  command
      .add_option_function<std::string>("--role", set_role,
                                        "What it is (default: as its name says)")
      ->type_name("q, k, v or do");
  add_choice(command, "--recipe", "Precision (default mxfp8)", &arguments->options.path);
  const auto set_axis = [arguments](const std::string& text) {
    if (text != "d" && text != "t") refuse_option("--axis must be d or t; got " + printable(text));
    arguments->axis = text == "d" ? ContractionAxis::kHeadDim : ContractionAxis::kTokens;
  };
  command
      .add_option_function<std::string>(
          "--axis", set_axis, "Contraction over head_dim or over tokens (default: the first)")
      ->type_name("d or t");
  add_choice(command, "--hadamard", "Rotation (default auto)", &arguments->options.hadamard);
  add_choice(command, "--safety", "Causal safety (default default)", &arguments->options.safety);
  add_choice(command, "--emulate", "Family whose numbers are given (default hopper)",
             &arguments->options.emulate);
  add_choice(command, "--score-accumulator", "Accumulator of scores (default f32)",
             &arguments->options.score_accumulator);
  add_text(command, "--output", "Safetensors file for codes, exp, scales", "FILE",
           &arguments->output)
      ->required();
  add_text(command, "--report", "JSON file with what was written", "FILE", &arguments->report);
}

}  // namespace

void add_quantize_command(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("quantize", "Codes and scales of one tensor, as attention computes them");
  const auto arguments = std::make_shared<QuantizeArguments>();
  arguments->options.mask.kind = MaskKind::kCausal;
  arguments->options.backend = BackendKind::kCpu;  // tensors of a file are in host memory
  add_quantize_options(*command, arguments.get());
  command->callback([arguments, exit_code] {
    Status status = quantize_file(*arguments);
    *exit_code = status.ok() ? kExitDone : report_failure("quantize", status);
  });
}

}  // namespace flamia::tools
