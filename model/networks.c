/* The table of networks. */
#include "model/bilstm.h"
#include "model/encoder_decoder.h"

const Network *const networks[NETWORKS_MAX + 1] = {&bilstm_network, &encoder_decoder_network, NULL};
