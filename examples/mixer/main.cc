// The mstrain command with one model more.
#include "entry.h"
#include "launcher/program.h"
#include "suites/all.h"

int main(int argc, char** argv) {
  mstrain::add_all_models();
  mstrain::add_model(mstrain::mixer::entry());
  return mstrain::launcher::run_program(argc, argv);
}
