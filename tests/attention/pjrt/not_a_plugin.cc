// A shared library without GetPjrtApi.

extern "C" int NotAPlugin() { return 0; }
