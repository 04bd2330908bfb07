#include "base/json_write.h"
#include "server/api/chat/chat.h"
#include "server/api/chat/messages.h"
#include "server/api/llama/llama.h"

/* Those of a chat and none of its own; rows that are NULL could not be walked. */
static const Field none[1];
const FieldList template_fields = {.rows = none, .also = &chat_fields};

int llama_apply_template(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e) {
    RequestDraft draft = {.ignored = ctx->lenient ? ignored : NULL};
    Buffer text = {0};
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    const FieldReader reader = {.out = &draft, .context = ctx, .error = e, .ignored = draft.ignored};
    int rc = fields_read(&reader, root, &template_fields) || api_check_model(draft.model, &ctx->models, e) ||
                     messages_text(&draft, ctx, &text, e)
                 ? -1
                 : 0;
    cJSON_Delete(root);
    api_request_free(&draft.request);
    json_open(out, NULL, '{');
    json_put_bytes(out, "prompt", text.data, text.n);
    json_close(out, '}');
    buffer_free(&text);
    return rc;
}
