/* The corpus of tests/hostile/, without what stands in front of noised elsewhere (make hostile has that too). */
#include "tests/support/test.h"

#include <stdlib.h>

TEST(hostile_corpus) {
    if (system("command -v python3 >/dev/null")) SKIP("needs python3");
    CHECK(system("python3 tests/hostile/run.py --quick") == 0);
}
