// What llama.cpp itself would take: loads GGUF files without their data and prints the bytes of
// model, context and compute buffers. Arguments: FILE CONTEXT SEQUENCES UNIFIED(0|1) TYPE ROLLBACK,
// repeated. Build against a llama.cpp checkout and its shared libraries:
//   g++ -std=c++17 -I$LLAMA/include -I$LLAMA/ggml/include -I$LLAMA/src benchmarks/dry_run.cpp
//       -L$BUILD/bin -lllama -lggml -lggml-base -Wl,-rpath,$BUILD/bin -o dry_run
#include "llama.h"
#include "llama-ext.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

static ggml_type cache_type(const char * name) {
    if (!std::strcmp(name, "q8_0")) return GGML_TYPE_Q8_0;
    if (!std::strcmp(name, "q4_0")) return GGML_TYPE_Q4_0;
    return GGML_TYPE_F16;
}

int main(int argc, char ** argv) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    for (int i = 1; i + 5 < argc; i += 6) {
        llama_model_params model_params = llama_model_default_params();
        model_params.n_gpu_layers = 0;
        model_params.no_alloc = true;
        model_params.load_mode = LLAMA_LOAD_MODE_NONE;
        llama_model * model = llama_model_load_from_file(argv[i], model_params);
        llama_context * context = nullptr;
        if (model) {
            llama_context_params params = llama_context_default_params();
            params.n_ctx = std::atoi(argv[i + 1]);
            params.n_seq_max = std::atoi(argv[i + 2]);
            params.kv_unified = std::atoi(argv[i + 3]) != 0;
            params.type_k = params.type_v = cache_type(argv[i + 4]);
            params.n_rs_seq = std::atoi(argv[i + 5]);
            params.n_ubatch = 512;
            params.swa_full = false;
            params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
            context = llama_init_from_model(model, params);
        }
        if (!context) {
            std::printf("%s failed\n", argv[i]);
        } else {
            size_t sum[3] = {0, 0, 0};
            for (const auto & entry : llama_get_memory_breakdown(context)) {
                sum[0] += entry.second.model;
                sum[1] += entry.second.context;
                sum[2] += entry.second.compute;
            }
            std::printf("%s model=%zu context=%zu compute=%zu\n", argv[i], sum[0], sum[1], sum[2]);
        }
        std::fflush(stdout);
        if (context) llama_free(context);
        if (model) llama_model_free(model);
    }
}
