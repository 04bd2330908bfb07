/* config.json, ours and other programs'. What is accepted passes the checks of a config by itself, is written as a file
 * of ours that says the same, and the parameters it asks for can be counted without overflow. */
#include "model/config_check.h"
#include "model/transformer.h"
#include "tests/fuzz/fuzz.h"
#include "weights/config_json.h"

#include <stdlib.h>
#include <string.h>

static void look(const uint8_t *data, size_t n) {
    Config c, again;
    Err err = {""};
    if (config_json_parse(&c, (const char *)data, n, &err)) {
        CHECK(err.msg[0]);
        return;
    }
    CHECK_MSG(config_check(&c, &err) == 0, "%s", err.msg);
    char *text = config_json_print(&c);
    CHECK_MSG(config_json_parse(&again, text, strlen(text), &err) == 0, "%s\n%s", err.msg, text);
    char *twice = config_json_print(&again);
    CHECK_MSG(!strcmp(text, twice), "%s\nand then\n%s", text, twice);
    free(text);
    free(twice);
}

TEST(fuzz_config) { fuzz_run("config", look); }
