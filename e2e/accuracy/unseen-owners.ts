import { unseenOf } from './compare-pods.ts';
import type { Blind } from './figures.ts';
import type { PodLife } from './pod-life.ts';
import type { Undated } from './undated.ts';
import type { Uninstalled } from './uninstalls.ts';

/**
 * What tenant clusters had that have gone. Of one that came and went while no watch could tell, because that of
 * its workload had to begin anew, nobody can say whose its objects were: nothing of it may be billed beyond the
 * truth, and nothing has to be.
 */
export function whatTheyHad(
  uninstalled: readonly Uninstalled[],
  blinds: readonly Blind[],
): { readonly lives: readonly PodLife[]; readonly undated: readonly Undated[] } {
  const lives: PodLife[] = [];
  const undated: Undated[] = [];
  for (const { installed, gone, ends } of uninstalled) {
    const isUnseen = blinds.some(
      ({ unreported, kinds }) =>
        kinds.includes('statefulsets') &&
        installed.from >= unreported.from &&
        gone.to <= unreported.to,
    );
    for (const end of ends) {
      if (end.kind === 'dated' && !isUnseen) lives.push(end.life);
      else {
        const one = end.kind === 'dated' ? unseenOf(end.life, []) : end.undated;
        undated.push(isUnseen ? { ...one, ownerUnseen: true } : one);
      }
    }
  }
  return { lives, undated };
}
