# uv brings Python and the dependencies, at the versions of the release.
class McpDiscoveryEngine < Formula
  desc "Tool discovery for agents with many MCP servers"
  homepage "https://github.com/OWNER/NAME"
  url "https://github.com/OWNER/NAME/releases/download/v0.1.0/mcp_discovery_engine-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license all_of: ["MIT", "Apache-2.0"]

  depends_on "uv"

  def install
    ENV["UV_TOOL_DIR"] = libexec
    ENV["UV_TOOL_BIN_DIR"] = bin
    system "uv", "tool", "install", buildpath
    generate_completions_from_executable(bin/"discovery", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/discovery --version")
    assert_match "calendar:find_free_time", shell_output("#{bin}/discovery init --demo")
  end
end
