// The mstrain command with the models that it comes with.
#include "launcher/program.h"
#include "suites/all.h"

int main(int argc, char** argv) {
  mstrain::add_all_models();
  return mstrain::launcher::run_program(argc, argv);
}
