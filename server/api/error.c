#include "base/json_write.h"
#include "server/api/error.h"

#include <stdarg.h>
#include <string.h>

int api_fail(ApiError *e, int status, const char *code, const char *param, const char *fmt, ...) {
    *e = (ApiError){.status = status, .code = code};
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return -1;
}

int api_check_model(const char *model, const ApiModels *served, ApiError *e) {
    if (!model || served->any || !strcmp(model, served->name)) return 0;
    for (int i = 0; i < served->n_aliases; i++)
        if (!strcmp(model, served->aliases[i])) return 0;
    return api_fail(e, 404, "model_not_found", "model", "the model \"%.200s\" does not exist, this server has \"%s\"",
                    model, served->name);
}

int api_no_memory(ApiError *e) {
    return api_fail(e, 503, "out_of_memory", NULL, "no memory for the request at the moment");
}

int api_bad_key(ApiError *e) { return api_fail(e, 401, "invalid_api_key", NULL, "the API key is missing or wrong"); }

static const char *type_of(int status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 429:
        return "rate_limit_error";
    case 500:
        return "server_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return "invalid_request_error";
    }
}

void api_error_print(Buffer *b, const ApiError *e) {
    json_open(b, NULL, '{');
    json_open(b, "error", '{');
    json_put_text(b, "message", e->message);
    json_put_text(b, "type", type_of(e->status));
    json_put_some(b, "param", e->param);
    json_put_some(b, "code", e->code);
    json_close(b, '}');
    json_close(b, '}');
}
