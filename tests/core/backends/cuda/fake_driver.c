/* NVIDIA's driver as tests have it. FAKE: what is wrong with it. */
#define NOTHING 0
#define NO_INIT 1
#define INIT_FAILS 2
#define NO_DEVICE 3
#define MEMORY_FAILS 4

#include <stddef.h>
#include <string.h>

#if FAKE != NO_INIT
int cuInit(unsigned flags) { return FAKE == INIT_FAILS ? 999 : (int)flags; }
#endif
int cuGetErrorName(int error, const char** name) {
  *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = FAKE == NO_DEVICE ? 0 : 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int length, int device) {
  strncpy(name, device == 0 ? "Some GPU" : "Another GPU", (size_t)length);
  return 0;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  memset(uuid, device, 16);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = (size_t)(device + 1) << 30;
  return FAKE == MEMORY_FAILS ? 201 : 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : device;
  return 0;
}
