import { isRecord } from '../../model/is-record.ts';
import { renamedKeys } from '../../model/renamed-keys.ts';

/** Names of fields in journals of earlier versions, each with the present name. */
const SPAN = new Map([
  ['unsureFrom', 'uncertainFrom'],
  ['unsureTo', 'uncertainTo'],
]);
const STATE = new Map([
  ['apart', 'separate'],
  ['credits', 'reversals'],
  ['hasOwnNodes', 'hasPrivateNodes'],
]);
const METERING = new Map([
  ['ownNodeTrust', 'privateNodeTrust'],
  ['ownNodeLabels', 'privateNodeLabels'],
  ['maxOwnNodes', 'maxPrivateNodes'],
]);

/** Returns a span of version 2 of a timeline in the present form. */
export function spanOfVersion2(span: object): unknown {
  const { state, ...times } = renamedKeys(span, SPAN) as Readonly<Record<string, unknown>>;
  return { ...times, state: nodeStateOfVersion2(state) };
}

/** Returns a state of version 1 in the present form: of this cluster, or of a tenant's API. */
export function stateOfVersion1(state: object): unknown {
  return renamedKeys(state, STATE);
}

/** Returns a row of version 1 of the tenant clusters in the present form. */
export function rowOfVersion1(row: object): unknown {
  const { cluster, mapped, ...others } = row as Record<string, unknown>;
  const { metering, ...identity } = isRecord(cluster) ? cluster : {};
  return {
    ...others,
    cluster: isRecord(metering)
      ? { ...identity, metering: renamedKeys(metering, METERING) }
      : cluster,
    ...(Array.isArray(mapped) && {
      mapped: mapped.map((each: object) => renamedKeys(each, SPAN)),
    }),
  };
}

/** The state of a private node names the labels of a TenantOverride as its source. */
function nodeStateOfVersion2(state: unknown): unknown {
  if (!isRecord(state) || typeof state['provenBy'] !== 'string') return state;
  const { provenBy, decidedBy } = state;
  return {
    ...state,
    provenBy: sourceOfVersion2(provenBy),
    ...(decidedBy !== undefined && {
      decidedBy: JSON.parse(sourceOfVersion2(JSON.stringify(decidedBy))) as unknown,
    }),
  };
}

function sourceOfVersion2(text: string): string {
  return text.replaceAll('ownNodeLabels', 'privateNodeLabels');
}
