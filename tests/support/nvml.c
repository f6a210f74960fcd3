/* A library that answers as NVML does, for one accelerator: what nvidia-ml-py asks, and no more. */
#include <string.h>

typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
#define NOT_SUPPORTED 3

int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)8; return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strcpy(name, "Toy H200"); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, utilization *found) { found->gpu = 75; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memory *found) {
  found->total = 1ULL << 37, found->used = 3ULL << 30, found->free = found->total - found->used;
  return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 350500; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) { return NOT_SUPPORTED; }
int nvmlDeviceGetClockInfo(void *device, unsigned clock, unsigned *mhz) { *mhz = 1755; return clock != 1; }
int nvmlDeviceGetMaxClockInfo(void *device, unsigned clock, unsigned *mhz) { *mhz = 1980; return clock != 1; }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *found) { *found = 51; return sensor; }
int nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *kb) {
  *kb = counter ? 20 : 10;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) {
  *bits = 0x5;
  return 0;
}
