/* Prints what docs/api.md shows of the schema, for `make docs`. */
#include "server/api/schema/schema.h"

int main(void) {
    Buffer b = {0};
    schema_print_markdown(&b);
    fwrite(b.data, 1, b.n, stdout);
    buffer_free(&b);
    return fflush(stdout) != 0;
}
