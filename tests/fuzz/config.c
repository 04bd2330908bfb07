/* config.json, ours and other programs'. What is accepted passes the checks of a config by itself, and is written as
 * a file of ours that says the same. */
#include "model/config_check.h"
#include "tests/fuzz/fuzz.h"
#include "weights/config_json.h"

#include <stdlib.h>
#include <string.h>

static void look(const uint8_t *data, size_t n) {
    Config c, again;
    Labels labels = {0}, same = {0};
    Err err = {""};
    if (config_json_parse(&c, &labels, (const char *)data, n, &err)) {
        CHECK(err.msg[0]);
        return;
    }
    CHECK_MSG(config_check(&c, &err) == 0, "%s", err.msg);
    char *text = config_json_print(&c, &labels);
    CHECK_MSG(config_json_parse(&again, &same, text, strlen(text), &err) == 0, "%s\n%s", err.msg, text);
    char *twice = config_json_print(&again, &same);
    CHECK_MSG(!strcmp(text, twice), "%s\nand then\n%s", text, twice);
    CHECK(labels.n == c.n_labels && same.n == c.n_labels);
    free(text);
    free(twice);
}

TEST(fuzz_config) { fuzz_run("config", look); }
