import { readFile, stat } from 'node:fs/promises';
import { ingestTokens, secrets } from '../settings/parsers/credentials.ts';
import type { Parser } from '../settings/parsers/parser.ts';
import { signingKeys } from '../settings/parsers/signing-keys.ts';
import type { HttpSettings, IngestToken } from '../settings/settings.ts';
import type { Secret } from '../model/secret.ts';
import { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The valid tokens, and the keys that sign portal tokens. */
export interface Tokens {
  readonly apiTokens: readonly Secret[];
  readonly ingestTokens: readonly IngestToken[];
  /** PEM; the first signs. */
  readonly portalKeys: readonly Secret[];
}

const POLL_MS = 10_000;
/** How long a token stays valid after it left its file, so that senders can switch. */
const OVERLAP_MS = 5 * 60_000;
const MOST_BYTES = 64 * 1024;

/**
 * The tokens and keys of the environment, and those of API_TOKEN_FILE, INGEST_TOKEN_FILE and
 * PORTAL_KEYS_FILE. It follows changes of the files.
 */
export class TokenSource {
  readonly #settings: () => HttpSettings;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #api: TokenFile<Secret>;
  readonly #ingest: TokenFile<IngestToken>;
  readonly #portal: TokenFile<Secret>;
  #current: { readonly of: HttpSettings; readonly version: string; readonly tokens: Tokens };

  constructor(settings: () => HttpSettings, clock: Clock, logger: Logger) {
    const of = settings();
    this.#settings = settings;
    this.#clock = clock;
    this.#logger = logger;
    const overlapMs = OVERLAP_MS;
    const [apiParser, ingestParser] = [oneALine(secrets()), oneALine(ingestTokens())];
    this.#api = new TokenFile({ parser: apiParser, secretOf: (token) => token, overlapMs, clock });
    this.#ingest = new TokenFile({
      parser: ingestParser,
      secretOf: ({ token }) => token,
      overlapMs,
      clock,
    });
    // No overlap: removing a key ends its tokens. To keep them valid, leave the key behind the new
    // one.
    this.#portal = new TokenFile({
      parser: signingKeys(),
      secretOf: (key) => key,
      overlapMs: 0,
      clock,
    });
    this.#current = { of, version: this.#version(), tokens: this.#merge(of) };
  }

  /** The same object until something changes. */
  current(): Tokens {
    const of = this.#settings();
    const version = this.#version();
    if (this.#current.of !== of || this.#current.version !== version) {
      this.#current = { of, version, tokens: this.#merge(of) };
    }
    return this.#current.tokens;
  }

  /** Reads the files; rejects if one is unreadable, since reading could be open without it. */
  async open(): Promise<void> {
    for (const problem of await this.poll()) throw new Error(problem);
  }

  /**
   * Reads the files again every ten seconds until the signal aborts. A file with a problem changes
   * nothing and is logged.
   */
  async follow(signal: AbortSignal): Promise<void> {
    const { apiTokenFile, ingestTokenFile, portalKeysFile } = this.#settings();
    if ([apiTokenFile, ingestTokenFile, portalKeysFile].every((file) => file === undefined)) return;
    const log = new CauseLog(this.#logger, this.#clock);
    while (!signal.aborted) {
      await this.#clock.sleep(POLL_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      const before = this.#version();
      for (const problem of await this.poll()) {
        log.warn(problem, `[http] ${problem}; the tokens read last stay in force`);
      }
      if (this.#version() !== before) this.#logger.info('[http] tokens have changed');
    }
  }

  /** Reads the files once; returns their problems, one line each. */
  async poll(): Promise<readonly string[]> {
    const { apiTokenFile, ingestTokenFile, portalKeysFile } = this.#settings();
    const problems = new Set<string | undefined>();
    if (apiTokenFile !== undefined) {
      problems.add(await this.#api.read('API_TOKEN_FILE', apiTokenFile));
    }
    if (ingestTokenFile !== undefined) {
      const own = ingestTokenFile !== apiTokenFile;
      const variable = own ? 'INGEST_TOKEN_FILE' : 'API_TOKEN_FILE';
      problems.add(await this.#ingest.read(variable, ingestTokenFile));
    }
    if (portalKeysFile !== undefined) {
      problems.add(await this.#portal.read('PORTAL_KEYS_FILE', portalKeysFile));
    }
    return [...problems].filter((problem) => problem !== undefined);
  }

  #version(): string {
    return `${this.#api.version}/${this.#ingest.version}/${this.#portal.version}`;
  }

  #merge(of: HttpSettings): Tokens {
    return {
      apiTokens: [...of.apiTokens, ...this.#api.tokens()],
      ingestTokens: [...of.ingestTokens, ...this.#ingest.tokens()],
      portalKeys: [...this.#portal.tokens(), ...of.portalKeys],
    };
  }
}

/** The tokens of one file, each with when it first was missing there (monotonic milliseconds). */
class TokenFile<T> {
  readonly #options;
  #text = '';
  #known = new Map<string, { readonly token: T; missedAt?: number }>();
  /** Increases with each change of the tokens. */
  version = 0;

  constructor(options: {
    readonly parser: Parser<readonly T[]>;
    readonly secretOf: (token: T) => Secret;
    /** How long a token stays valid after it left the file. */
    readonly overlapMs: number;
    readonly clock: Clock;
  }) {
    this.#options = options;
  }

  tokens(): readonly T[] {
    return [...this.#known.values()].map(({ token }) => token);
  }

  /**
   * Reads the file; returns its problem, without any token. After a problem only tokens that have
   * expired change.
   */
  async read(variable: string, path: string): Promise<string | undefined> {
    this.#forgetMissed();
    const text = await readText(path);
    if (typeof text !== 'string') {
      return `${variable}: cannot be read: "${path}": ${text.problem}; mount a readable file there`;
    }
    if (text === this.#text) return undefined;
    const parsed = this.#options.parser.parse(text.trim());
    if (parsed.kind === 'problem') {
      return `${variable}: ${parsed.what}: "${path}"; ${parsed.fix}`;
    }
    this.#text = text;
    this.#replace(parsed.value);
    return undefined;
  }

  #replace(tokens: readonly T[]): void {
    const { clock, overlapMs, secretOf } = this.#options;
    const now = clock.monotonic();
    const next = new Map<string, { readonly token: T; missedAt?: number }>();
    for (const token of tokens) next.set(secretOf(token).reveal(), { token });
    for (const [text, { token, missedAt = now }] of this.#known) {
      if (overlapMs > 0 && !next.has(text)) next.set(text, { token, missedAt });
    }
    this.#known = next;
    this.version += 1;
  }

  #forgetMissed(): void {
    const { clock, overlapMs } = this.#options;
    const now = clock.monotonic();
    for (const [text, { missedAt }] of this.#known) {
      if (missedAt === undefined || now - missedAt < overlapMs) continue;
      this.#known.delete(text);
      this.version += 1;
    }
  }
}

/** Parses one item a line instead of a comma list. */
function oneALine<T>(parser: Parser<T>): Parser<T> {
  return {
    ...parser,
    parse: (text) => {
      const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
      return parser.parse(lines.join(','));
    },
  };
}

async function readText(path: string): Promise<string | { readonly problem: string }> {
  try {
    const { size } = await stat(path);
    if (size > MOST_BYTES) return { problem: `${size} bytes; at most ${MOST_BYTES}` };
    return await readFile(path, 'utf8');
  } catch (error) {
    return { problem: error instanceof Error && 'code' in error ? String(error.code) : 'unknown' };
  }
}
