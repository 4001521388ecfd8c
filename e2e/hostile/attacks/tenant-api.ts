import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRandom } from '../../faults/random.ts';
import { groupOf } from '../world/serve-api.ts';
import { type Attack, clusterOf } from './attack.ts';
import { KINDS, objectsOf, podMetrics } from './hostile-cluster.ts';
import {
  type Requested,
  beginWatch,
  type Liar,
  type Lie,
  listOf,
  sendJson,
  sendText,
} from './lie.ts';
import { LYING_ANSWERS } from './lying-answers.ts';
import { LYING_LISTS } from './lying-lists.ts';
import { LYING_WATCHES } from './lying-watches.ts';
import { NODE_SHAPES } from './node-shapes.ts';

/** How the API servers of hostile tenant clusters misbehave. */
export const TENANT_API_ATTACKS: readonly Liar[] = [
  ...LYING_LISTS,
  ...LYING_WATCHES,
  ...LYING_ANSWERS,
  ...NODE_SHAPES,
];

/** The API server of one run's tenant cluster: honest but for the lies that its attacks are. */
export class HostileApi {
  readonly #cluster: string;
  readonly #bornAt = Date.now() - 86_400_000;
  readonly #lies: readonly Lie[];
  readonly #open = new Set<ServerResponse>();

  constructor(run: number, attacks: readonly Attack[]) {
    this.#cluster = clusterOf(run);
    this.#lies = attacks.flatMap(({ name, seed }) => {
      const liar = TENANT_API_ATTACKS.find((each) => each.name === name);
      return liar === undefined ? [] : [liar.make(createRandom(seed))];
    });
  }

  handle(request: IncomingMessage, response: ServerResponse, path: string): void {
    response.on('error', () => undefined);
    this.#open.add(response);
    response.once('close', () => this.#open.delete(response));
    const url = new URL(path, 'https://hostile');
    const words = url.pathname.split('/');
    const requested: Requested = {
      url: path,
      plural: words.at(-1) ?? '',
      isWatch: url.searchParams.get('watch') === 'true',
      query: url.searchParams,
      authorization: request.headers.authorization ?? '',
      cluster: this.#cluster,
      bornAt: this.#bornAt,
    };
    const lie = this.#lies.find((each) => each.takes(requested));
    if (lie === undefined) this.#beHonest(requested, response);
    else lie.answer(requested, response);
  }

  /** Cuts what is open. */
  close(): void {
    for (const response of this.#open) response.destroy();
  }

  #beHonest(requested: Requested, response: ServerResponse): void {
    if (requested.url.includes('metrics.k8s.io'))
      return sendJson(response, 200, listOf(podMetrics(2)));
    const group = groupOf(requested.url);
    if (group !== undefined) return sendJson(response, 200, group);
    const kind = KINDS.find((each) => each === requested.plural);
    if (kind === undefined) return sendText(response, 404, '{"kind":"Status","code":404}');
    if (requested.isWatch) return beginWatch(response);
    sendJson(response, 200, listOf(objectsOf(kind, requested.cluster, requested.bornAt)));
  }
}
