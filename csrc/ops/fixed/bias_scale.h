// Biases whose scale the client leaves to their nodes, and what else a tensor may have.
#pragma once

#include <optional>

#include "ir/node.h"
#include "support/status.h"

namespace qnnrt {

// A SFIXED_POINT_32 constant whose one scale is 0: a bias with the scale of the products that it is
// added to. The tensor alone cannot say it; in no other place is it a sound encoding.
bool LeavesScaleOpen(const Tensor& tensor);

// What is asked of a tensor whatever its nodes are: a type that kernels work on, and a sound
// encoding unless it leaves its scale open. Errors: 7004, 7005.
Status CheckTensor(const Tensor& tensor);

// The bias of a node that leaves its scale open, with that of the node's products (one for each
// scale of the weights) and a copy of its data; nothing of a node that has no such bias, or whose
// other encodings do not say. The node may be one that is yet to be validated.
std::optional<Tensor> BiasOfProducts(const Node& node);

}  // namespace qnnrt
