/** Bytes of the length before each message of Kafka's protocol (https://kafka.apache.org/protocol#protocol_common). */
const LENGTH_BYTES = 4;
const PRODUCE = 0;
const CORRELATION_AT = 8;

/** Cuts a stream into its messages, each with its length before it. */
export function createFrames(): (chunk: Buffer) => readonly Buffer[] {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const frames: Buffer[] = [];
    while (rest.length >= LENGTH_BYTES) {
      const end = LENGTH_BYTES + rest.readInt32BE(0);
      if (rest.length < end) break;
      frames.push(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
    return frames;
  };
}

/** Whether a request writes records. */
export function isProduce(request: Buffer): boolean {
  return request.readInt16BE(LENGTH_BYTES) === PRODUCE;
}

/** The number of a request, which its answer bears as well. */
export function numberOfRequest(request: Buffer): number {
  return request.readInt32BE(CORRELATION_AT);
}

export function numberOfAnswer(answer: Buffer): number {
  return answer.readInt32BE(LENGTH_BYTES);
}
