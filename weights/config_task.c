#include "weights/config_task.h"

#include "base/err.h"
#include "model/encoder_decoder.h"
#include "model/shape.h"

#include <string.h>

/* A key that only some tasks have. */
static bool belongs(JsonReader *r, const char *key, const Config *c, bool has) {
    bool there = json_field(r->object, key) != NULL;
    if (there && !has) json_reader_fail(r, "%s is given, but task is %s", key, task_names[c->task]);
    return has;
}

/* {"0": name, "1": name, ...}, in any order. */
static void read_labels(Labels *labels, const Config *c, JsonReader *r) {
    JsonReader l;
    char key[16];
    if (!json_reader_enter(r, &l, "id2label")) {
        json_reader_fail(r, "id2label is missing, but task is %s", task_names[c->task]);
        return;
    }
    for (int n = cJSON_GetArraySize(l.object); labels->n < n && !l.failed; labels->n++) {
        char *name = labels->names + labels->used;
        snprintf(key, sizeof key, "%d", labels->n);
        if (!json_field(l.object, key)) json_reader_fail(&l, "id2label has %d names, but none for %s", n, key);
        json_take_string(&l, key, name, LABELS_BYTES - labels->used, "");
        if (!*name) json_reader_fail(&l, "id2label.%s is empty", key);
        if (labels_find(labels, name) >= 0)
            json_reader_fail(&l, "id2label.%s is %.80s, which has an id before", key, name);
        labels->used += strlen(name) + 1;
        if (labels->used == LABELS_BYTES)
            json_reader_fail(&l, "id2label.%s: the names have more than %d bytes", key, LABELS_BYTES);
    }
    json_reader_leave(r, &l);
}

static void read_image_size(Config *c, JsonReader *r) {
    const cJSON *size = json_take(r, "image_size");
    int64_t pixels[2] = {0};
    bool good = cJSON_GetArraySize(size) == 2;
    if (!size) return;
    for (int i = 0; i < 2 && good; i++) good = json_integer(cJSON_GetArrayItem(size, i), 1, INT_MAX, &pixels[i]);
    if (!good) json_reader_fail(r, "input.image_size must be [height, width] in pixels");
    c->input.height = (int)pixels[0];
    c->input.width = (int)pixels[1];
}

static void read_input(Config *c, JsonReader *r) {
    JsonReader i;
    if (!json_reader_enter(r, &i, "input")) return;
    c->input.kind = (InputKind)json_take_name(&i, "kind", input_names, COUNTOF(input_names), JSON_REQUIRED);
    if (c->input.kind == INPUT_VECTORS) {
        c->input.size = json_take_positive(&i, "size", JSON_REQUIRED);
        json_reader_leave(r, &i);
        return;
    }
    read_image_size(c, &i);
    if (c->input.kind == INPUT_PATCHES) {
        if (!c->input.height) json_reader_fail(&i, "input.image_size is missing");
        c->input.channels = json_take_positive(&i, "channels", 1);
        c->input.patch = json_take_positive(&i, "patch_size", JSON_REQUIRED);
    }
    json_reader_leave(r, &i);
}

static void read_block(Config *c, JsonReader *r) {
    JsonReader b;
    if (!json_reader_enter(r, &b, "block")) return;
    c->block.norm = (BlockNorm)json_take_name(&b, "norm", block_norm_names, COUNTOF(block_norm_names), BLOCK_PRE);
    c->block.no_residual = !json_take_bool(&b, "residual", true);
    json_reader_leave(r, &b);
}

static void read_network(Config *c, JsonReader *r) {
    const char *names[1 + NETWORKS_MAX] = {"transformer"};
    int n = 1;
    for (; networks[n - 1]; n++) names[n] = networks[n - 1]->name;
    int found = json_take_name(r, "network", names, n, 0);
    c->network = found > 0 ? networks[found - 1] : NULL;
    if (c->network == &encoder_decoder_network)
        c->decoder_layers = json_take_positive(r, "num_decoder_layers", JSON_REQUIRED);
}

void config_task_read(Config *c, Labels *labels, JsonReader *r) {
    read_network(c, r);
    c->task = (TaskKind)json_take_name(r, "task", task_names, COUNTOF(task_names), TASK_TEXT_GENERATION);
    if (belongs(r, "id2label", c, config_classifies(c))) read_labels(labels, c, r);
    c->n_labels = labels->n;
    if (belongs(r, "pool", c, config_pools(c))) {
        Pool usual = c->task == TASK_IMAGE_CLASSIFICATION ? POOL_FIRST : POOL_LAST;
        c->pool = (Pool)json_take_name(r, "pool", pool_names, COUNTOF(pool_names), (int)usual);
    }
    if (belongs(r, "mask_token_id", c, c->task == TASK_FILL_MASK))
        c->mask_token_id = json_take_int(r, "mask_token_id", JSON_REQUIRED);
    read_input(c, r);
    read_block(c, r);
    c->dropout = (float)json_take_number(r, "dropout", 0);
}
