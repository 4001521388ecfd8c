import type { Socket } from 'node:net';

/** Requests in one packet. Browsers, SDKs and proxies send one and wait for the answer. */
export const MOST_PIPELINED_REQUESTS = 16;

const VERSION = Buffer.from(' HTTP/1.');
/** Length of ` HTTP/1.` and the digit after it. */
const VERSION_LENGTH = VERSION.length + 1;
const CARRIAGE_RETURN = 0x0d;
const NEWLINE = 0x0a;
/** Bytes of `GET / HTTP/1.1` with `Host:`, the shortest request. */
const SHORTEST_REQUEST = 20;

/**
 * Closes a connection that sends many requests without waiting for an answer (RFC 9112, 9.3.2). One
 * packet of 64 KiB can have two thousand; all would be answered before any other connection. The
 * check runs before parsing, which is most of the work.
 */
export function refusePipelining(socket: Socket, refused: () => void): void {
  socket.prependListener('data', (bytes: Buffer) => {
    if (!hasMoreRequests(bytes)) return;
    refused();
    // The parser runs after this and stops at the first byte that is not HTTP.
    bytes.fill(0);
    socket.destroy();
  });
}

/**
 * Whether the bytes have more than {@link MOST_PIPELINED_REQUESTS} lines that end like the first
 * line of a request. A JSON body has none: it escapes line ends.
 */
function hasMoreRequests(bytes: Buffer): boolean {
  if (bytes.length <= MOST_PIPELINED_REQUESTS * SHORTEST_REQUEST) return false;
  let requests = 0;
  let at = bytes.indexOf(VERSION);
  while (at !== -1) {
    const next = bytes[at + VERSION_LENGTH];
    if (next === CARRIAGE_RETURN || next === NEWLINE) requests += 1;
    if (requests > MOST_PIPELINED_REQUESTS) return true;
    at = bytes.indexOf(VERSION, at + VERSION_LENGTH);
  }
  return false;
}
