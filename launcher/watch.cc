// mstrain watch: the live page over HTTP, to this machine alone.
#include <httplib.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/train/report.h"
#include "launcher/commands.h"
#include "launcher/watched_folder.h"

namespace mstrain::launcher {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr int64_t kPort = 6007;  // beside TensorBoard's

// A page of another origin could have its own name point here: only names of this machine are answered.
bool is_local(const std::string& host) {
  const std::string name = host.substr(0, host.rfind(':'));
  return name == kAddress || name == "localhost";
}

// The library's default shares a port with whoever else does.
void refuse_shared_port(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

void add_routes(httplib::Server& server, WatchedFolder& folder) {
  server.set_default_headers(
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src "
        "'self'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (is_local(request.get_header_value("Host"))) {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    response.status = 403;
    response.set_content("mstrain watch answers to 127.0.0.1 and localhost\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [page = live_html()](const httplib::Request&, httplib::Response& response) {
    response.set_content(page, "text/html; charset=utf-8");
  });
  server.Get("/runs.json", [&folder](const httplib::Request&, httplib::Response& response) {
    response.set_content(folder.runs(), "application/json");
  });
  server.Get("/data.json", [&folder](const httplib::Request& request, httplib::Response& response) {
    std::vector<std::string> ids;
    for (size_t i = 0; i < request.get_param_value_count("run"); ++i) {
      ids.push_back(request.get_param_value("run", i));
    }
    response.set_content(folder.data(ids), "application/json");
  });
  server.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr thrown) {
        response.status = 500;
        try {
          std::rethrow_exception(std::move(thrown));
        } catch (const std::exception& error) {
          response.set_content(error.what(), "text/plain");
        }
      });
}

}  // namespace

int watch(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  int64_t port = kPort;
  const std::vector<Option> options{
      {"--port", "N", [&](const std::string& text) { port = integer_value("--port", text); },
       "default 6007; 0: one that is free"}};
  const auto rest = parse_arguments(usage, arguments, options);
  if (!rest) {
    return kDone;
  }
  if (rest->size() != 1) {
    throw ConfigError("watch: expected one FOLDER");
  }
  if (port < 0 || port > 65535) {
    throw ConfigError(fmt::format("--port: expected 0 to 65535, found {}", port));
  }
  WatchedFolder folder(real_files(), rest->front());
  httplib::Server server;
  server.set_socket_options(refuse_shared_port);
  server.set_keep_alive_timeout(1);
  add_routes(server, folder);
  const int bound = port == 0 ? server.bind_to_any_port(kAddress)
                    : server.bind_to_port(kAddress, static_cast<int>(port)) ? static_cast<int>(port)
                                                                            : -1;
  if (bound < 0) {
    fail("port {} of {} cannot be taken: {}; choose another with --port, or --port 0", port,
         kAddress, std::strerror(errno));
  }
  const HeedInterrupts heeds;
  fmt::print("watching {}: http://{}:{}/ (Ctrl-C ends it)\n", rest->front(), kAddress, bound);
  std::fflush(stdout);
  std::atomic<bool> done = false;
  std::thread end([&] {
    while (!done) {
      if (stop) {
        server.stop();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const bool served = server.listen_after_bind();
  done = true;
  end.join();
  check(served, "{}:{}: the server ended: {}", kAddress, bound, std::strerror(errno));
  return kDone;
}

}  // namespace mstrain::launcher
