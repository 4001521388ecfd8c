import type { Registry } from 'prom-client';
import { isoTime } from '../http/presentation.ts';
import type { Portal } from '../http/portal/portal.ts';
import { pause } from '../telemetry/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';
import { isSuccess } from '../outbound/http-client.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { SettingsStore } from '../settings/settings.ts';
import type { Clock } from '../telemetry/clock.ts';
import { gaugesIn } from '../telemetry/gauges.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Returns why a day's anchor is not stored; undefined if it is. */
type StoreAnchor = (
  day: string,
  anchor: string,
  signal: AbortSignal,
) => Promise<string | undefined>;

const CONFIG_MAP = 'meterfeed-anchors';
/** An anchor has less than 500 bytes, and a ConfigMap may have 1 MiB. */
const MOST_DAYS = 400;
const DAY = /^\d{4}-\d\d-\d\d$/;
const INTERVAL_MS = 60_000;

/**
 * Stores the signed head of the ledger outside of it, once a day (UTC) in each place of
 * `spec.anchors` (docs/how-to/check-a-bill.md#anchors). Retries a failed place every minute. After
 * a restart the webhook receives the anchor of the day again.
 */
export class Anchors {
  readonly #options;
  /** The last stored day by place. */
  readonly #stored = new Map<string, string>();
  #problems: readonly string[] = [];

  /** The connection and the clients write only as the leader. */
  constructor(options: {
    readonly ledger: Pick<Ledger, 'stats'>;
    readonly sign: Portal['signStatement'];
    readonly settings: Pick<SettingsStore, 'current'>;
    readonly connection: Pick<Connection, 'request'>;
    /** The operator's own namespace. */
    readonly namespace: string;
    readonly outbound: Outbound;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly registry: Registry;
  }) {
    this.#options = options;
    gaugesIn(options.registry)(
      'meterfeed_anchors_failing',
      'Places of spec.anchors that lack the anchor of the day',
      () => this.#problems.length,
    );
  }

  /** One line for each place that lacks the anchor of the day. */
  problems(): readonly string[] {
    return this.#problems;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (await pause(clock, INTERVAL_MS, signal)) {
      const problems = await this.#storeMissing(signal);
      if (signal.aborted) return;
      const news = problems.filter((problem) => !this.#problems.includes(problem));
      for (const problem of news) logger.warn(`[ledger] no anchor is stored: ${problem}`);
      this.#problems = problems;
    }
  }

  /** Returns the problems. */
  async #storeMissing(signal: AbortSignal): Promise<readonly string[]> {
    const { ledger, clock, sign } = this.#options;
    const at = isoTime(clock.now());
    const day = at.slice(0, 10);
    const missing = this.#places().filter(([place]) => this.#stored.get(place) !== day);
    const { ledgerId, sequence, chain } = ledger.stats();
    if (missing.length === 0 || sequence === 0) return [];
    const anchor = await sign({ ledger_id: ledgerId, at, head: { sequence, chain } });
    if (anchor === undefined) {
      return ['no Ed25519 key: PORTAL_KEYS_FILE: add one (docs/how-to/check-a-bill.md#keys)'];
    }
    const problems: string[] = [];
    for (const [place, store] of missing) {
      const problem = await store(day, anchor, signal);
      if (problem === undefined) this.#stored.set(place, day);
      else problems.push(problem);
    }
    return problems;
  }

  #places(): readonly (readonly [place: string, store: StoreAnchor])[] {
    const { configMap, webhook } = this.#options.settings.current().anchors;
    return [
      ...(configMap ? [[CONFIG_MAP, this.#addToConfigMap] as const] : []),
      ...(webhook === undefined ? [] : [[webhook, this.#postTo(webhook)] as const]),
    ];
  }

  /** Adds the first anchor of a day, and removes those of the oldest days. */
  readonly #addToConfigMap: StoreAnchor = async (day, anchor, signal) => {
    const { connection, namespace } = this.#options;
    const resource = { group: '', version: 'v1', plural: 'configmaps', namespace };
    const path = resourcePath(resource, CONFIG_MAP);
    const problem = (reason: string): string => `ConfigMap "${CONFIG_MAP}": ${reason}`;
    const found = await connection.request(path, { signal });
    const isNew = found.kind === 'status' && found.code === 404;
    if (found.kind !== 'ok' && !isNew) return problem(describeFailure(found));
    const data = found.kind === 'ok' && isRecord(found.body) ? found.body['data'] : undefined;
    const before = isRecord(data) ? Object.entries(data).filter(([key]) => DAY.test(key)) : [];
    if (before.some(([key]) => key === day)) return undefined;
    const days = [...before, [day, anchor] as const].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const applied = await connection.request(path, {
      method: 'PATCH',
      query: { fieldManager: 'meterfeed', force: true },
      contentType: 'application/apply-patch+yaml',
      body: {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: CONFIG_MAP },
        data: Object.fromEntries(days.slice(-MOST_DAYS)),
      },
      signal,
    });
    return applied.kind === 'ok' ? undefined : problem(describeFailure(applied));
  };

  #postTo(url: string): StoreAnchor {
    return async (day, anchor, signal) => {
      const client = this.#options.outbound.client({ name: 'anchor', baseUrl: url });
      try {
        const outcome = await client.request({
          method: 'POST',
          path: '',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ day, anchor }),
          signal,
        });
        if (outcome.kind === 'failed') return `webhook: ${outcome.reason}`;
        return isSuccess(outcome.status) ? undefined : `webhook: HTTP ${outcome.status}`;
      } finally {
        await client.close();
      }
    };
  }
}
