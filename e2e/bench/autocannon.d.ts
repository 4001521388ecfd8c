/** The little of autocannon that the benches use; the package brings no types of its own. */
declare module 'autocannon' {
  export interface Request {
    readonly method: 'GET' | 'POST';
    readonly path?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly setupRequest: (request: Changed) => Changed;
  }

  export interface Changed {
    readonly path?: string;
    readonly body?: string;
  }

  export interface Options {
    readonly url: string;
    readonly connections: number;
    /** Seconds. */
    readonly duration: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly requests: readonly Request[];
  }

  /** Milliseconds. */
  export interface Latency {
    readonly p50: number;
    readonly p99: number;
  }

  export interface Result {
    readonly requests: { readonly average: number };
    readonly latency: Latency;
    readonly '2xx': number;
    readonly non2xx: number;
    readonly errors: number;
  }

  export default function autocannon(options: Options): Promise<Result>;
}
