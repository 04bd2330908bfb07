/* qwen: Hugging Face configs of model_type "qwen2" (Qwen2, Qwen2.5) and "qwen3" in our terms: llama's network
 * with biases on q, k and v alone, and with a norm over every head of q and k instead. A window is taken when all
 * layers have it; on some of them only it is refused. */
#ifndef NOISED_QWEN_H
#define NOISED_QWEN_H

#include "base/json/json_reader.h"
#include "model/config.h"

void qwen2_config_read(Config *c, JsonReader *r); /* as llama_config_read */
void qwen3_config_read(Config *c, JsonReader *r);

#endif
