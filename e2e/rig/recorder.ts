import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type CloudEvent, parseBatch, USAGE_EVENT_PREFIX } from '../receiver/batch.ts';
import { senderOf } from './sender.ts';

/** A request that a process made of the receiver. */
export interface SentRequest {
  /** When its headers arrived, milliseconds since the epoch. */
  readonly at: number;
  /** Undefined when its sender ended before the kernel was asked. */
  readonly pid: number | undefined;
}

/** Everything that came in since {@link Recorder.begin}. */
export interface Recorded {
  readonly requests: readonly SentRequest[];
  /** By event id, each different content that came under it, as JSON. */
  readonly usage: ReadonlyMap<string, ReadonlySet<string>>;
}

/** A receiver of CloudEvents that keeps what arrives, and from which process, and deduplicates nothing. */
export class Recorder {
  readonly #server: Server;
  readonly #senders = new WeakMap<Socket, number | undefined>();
  #pids: () => readonly number[] = () => [];
  #requests: SentRequest[] = [];
  #usage = new Map<string, Set<string>>();

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#requests.push({ at: Date.now(), pid: this.#senders.get(request.socket) });
      this.#record(request).then(
        (status) => response.writeHead(status).end(),
        () => response.destroy(),
      );
    });
    this.#server.on('connection', (socket: Socket) => {
      this.#senders.set(socket, senderOf(socket, this.#pids()));
    });
  }

  static async start(): Promise<Recorder> {
    const recorder = new Recorder();
    await new Promise<void>((resolve) => recorder.#server.listen(0, '127.0.0.1', resolve));
    return recorder;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}/`;
  }

  /** Forgets what it has. `pids` are the processes that may send from now on. */
  begin(pids: () => readonly number[]): void {
    this.#pids = pids;
    this.#requests = [];
    this.#usage = new Map();
  }

  recorded(): Recorded {
    return { requests: this.#requests, usage: this.#usage };
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #record(request: IncomingMessage): Promise<number> {
    const chunks: AsyncIterable<Buffer> = request;
    const body = Buffer.concat(await Array.fromAsync(chunks)).toString('utf8');
    const batch = parseBatch(request.headers['content-type'] ?? '', body);
    if (batch.kind === 'refused') return 400;
    for (const event of batch.events) this.#keep(event);
    return 200;
  }

  #keep({ id, type, data }: CloudEvent): void {
    if (!type.startsWith(USAGE_EVENT_PREFIX)) return;
    const contents = this.#usage.get(id) ?? new Set();
    contents.add(JSON.stringify(data));
    this.#usage.set(id, contents);
  }
}
