/* describe: what is served, told as vLLM's GET /tokenizer_info and llama-server's GET /props tell it. Neither says
 * where files lie, nor anything of other servers that has no counterpart here. */
#ifndef NOISED_API_DESCRIBE_H
#define NOISED_API_DESCRIBE_H

#include "server/api/chat/chat.h"

/* {"tokenizer_class":string|null,"vocab_size":int,"model_max_length":int,"add_bos_token":bool,"add_eos_token":bool,
 * "bos_token":string|null,"eos_token":…,"pad_token":…,"chat_template":string|null}. Class and padding are what
 * `config`, the tokenizer_config.json of the folder, says; NULL: there is none. */
void describe_tokenizer(Buffer *b, const ApiContext *ctx, const cJSON *config);

/* slots: choices that are computed at the same time. `model_path` is the name of the folder without its path, for
 * where it lies is nobody's business; `params` of default_generation_settings are the values that act where a request
 * does not name them, a llama-server's that do nothing here among them. */
void describe_props(Buffer *b, const ApiContext *ctx, const char *folder, int slots);

/* [{"id":0,"n_ctx":512,"speculative":false,"is_processing":true,"params":as in /props},...]: the first `running` of
 * them compute. */
void describe_slots(Buffer *b, const ApiContext *ctx, int slots, int running);

/* ,"task":... and, of a model that generates no text, "labels" in the order of its probabilities, the "mask" as it is
 * spelled and the "image_size" [height, width]: whichever it has. */
void describe_task(Buffer *b, const ApiContext *ctx);

#endif
