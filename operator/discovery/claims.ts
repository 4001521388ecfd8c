import { SOURCES } from './registry.ts';
import type { OwnershipClaim } from './tenant-source.ts';

const CLAIMS = SOURCES.flatMap(({ claim }) => claim ?? []);

/** The first claim of any kind, as one text that can be shared and compared; undefined where there is none. */
export function claimText(label: (key: string) => string | undefined): string | undefined {
  for (const claim of CLAIMS) {
    const found = claim(label);
    if (found !== undefined) return `${found.kind}/${found.part}/${found.name}`;
  }
  return undefined;
}

/** What {@link claimText} has written. A value of a label has no slash. */
export function readClaim(text: string): Pick<OwnershipClaim, 'name'> & {
  readonly kind: string;
  readonly part: OwnershipClaim['part'];
} {
  const [kind = '', part, name = ''] = text.split('/');
  return { kind, part: part === 'control-plane' ? part : 'tenant', name };
}
