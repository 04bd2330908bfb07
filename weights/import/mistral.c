#include "weights/import/mistral.h"

#include "weights/import/llama.h"

void mistral_config_read(Config *c, JsonReader *r) {
    llama_like_config_read(c, r);
    bool none = cJSON_IsNull(json_field(r->object, "sliding_window"));
    c->sliding_window = none ? 0 : json_take_positive(r, "sliding_window", 4096);
}
