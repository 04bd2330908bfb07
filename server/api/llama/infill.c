/* POST /infill: what stands before the cursor and behind it, and snippets of other files, as a prompt and a suffix. */
#include "base/err.h"
#include "base/json/json_reader.h"
#include "server/api/completions/request_draft.h"
#include "server/api/llama/llama.h"

#include <string.h>

static const Type snippet = {.kind = TYPE_MAP,
                             .of = {&api_text_type},
                             .schema =
                                 "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"text\"],"
                                 "\"properties\":{\"filename\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}}}"};
static const Type snippets = {.kind = TYPE_ARRAY, .of = {&snippet}};

static const Field rows[] = {
    {DRAFT_FIELD(input_prefix, FIELD_TEXT), .absent = "none", .help = "What stands before the text to fill in."},
    {.name = "input_suffix",
     .kind = FIELD_TEXT,
     .offset = offsetof(RequestDraft, suffix),
     .absent = "none",
     .help = "What stands behind it. Refused where the model's tokenizer has no tokens to fill in with."},
    {DRAFT_FIELD(input_extra, FIELD_OTHER), .type = &snippets, .absent = "none",
     .help = "Objects of a `text` and perhaps its `filename`, which is left out: snippets that go in front of all."},
    {DRAFT_FIELD(prompt, FIELD_OTHER), .type = &api_text_type, .absent = "none",
     .help = "What stands between `input_prefix` and the text to fill in."},
    {.name = "suffix", .kind = FIELD_NONE},
};

static int extra_fail(ApiError *e) {
    return api_fail(e, 400, NULL, "input_extra",
                    "input_extra must be an array of {\"filename\":string,\"text\":string}");
}

/* As llama-server separates them for models that have no token for it. */
static int write_extra(Buffer *out, const cJSON *extra, ApiError *e) {
    const cJSON *item;
    if (extra && !cJSON_IsArray(extra)) return extra_fail(e);
    cJSON_ArrayForEach(item, extra) {
        const cJSON *name = json_field(item, "filename"), *text = json_field(item, "text");
        bool right = cJSON_IsObject(item) && cJSON_IsString(text) && (!name || cJSON_IsString(name));
        if (!right || cJSON_GetArraySize(item) != 1 + (name != NULL)) return extra_fail(e);
        buffer_print(out, "\n\n--- snippet ---\n\n%s", text->valuestring);
    }
    return 0;
}

static int read_infill(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    const char *prompt = cJSON_GetStringValue(d->prompt);
    Buffer before = {0};
    if (d->prompt && !prompt) return api_fail(e, 400, NULL, "prompt", "prompt must be a string");
    if (!d->suffix) d->suffix = "";
    int rc = write_extra(&before, d->input_extra, e);
    if (rc == 0) {
        buffer_print(&before, "%s%s", d->input_prefix ? d->input_prefix : "", prompt ? prompt : "");
        buffer_append(&before, "", 1);
        const cJSON whole = {.type = cJSON_String, .valuestring = before.data};
        d->prompt = &whole;
        rc = before.failed ? api_no_memory(e) : llama_fields.finish(d, context, e);
        d->prompt = NULL;
    }
    buffer_free(&before);
    if (rc && !strcmp(e->param, "suffix")) strcpy(e->param, "input_suffix");
    return rc;
}

const FieldList infill_fields = {.rows = rows, .n = COUNTOF(rows), .also = &llama_fields, .finish = read_infill};
