/**
 * The acceptance cases by their ids: what is metered on the control plane cluster, and what windows
 * do. A row that nobody tests is a rule that nobody keeps. What each id stands for is said where it is tested: a test
 * refuses an id without words.
 */
export const HOST_CASES: Readonly<Record<string, string>> = {
  'GPUs that device plugins give out': `
    G01 G04 G05 G06 G07 G08 G10 G11 G13 G14 G15 G16 G17 G18 G19 G20 G21 G23 G25 G26 G27 G28 G29 G30
    G31 G32 G34 G35 G36 G37 G38 G39 G40`,
  'GPUs that are shared without a resource': `
    G41 G42 G43 G44 G45 G46 G47 G48 G49 G50 G51 G52 G53 G54 G55 G56 G57`,
  'GPUs that claims give out': `
    D01 D04 D05 D07 D08 D10 D11 D12 D13 D14 D15 D16 D18 D19 D20 D21 D22 D23 D24 D25 D26 D27
    D28`,
  'what is in namespaces that syncers map': 'C29 C30 C31 C36 D29 G58 S18 L07 I17',
  'virtual machines that are nodes': 'C32 C33 S19',
  'CPU and memory': `
    C01 C02 C03 C04 C06 C07 C08 C11 C12 C13 C14 C15 C16 C17 C18 C20 C21 C22 C23 C26 C27 C28`,
  'storage, load balancers and instances': `
    S01 S03 S04 S08 S09 S10 S13 S15 S16 S17 L02 L03 L04 L05 L06 I01 I02 I03 I04 I05 I06 I07 I08 I09 I10
    I11 I12 I13 I14 I15 I16`,
  'dedicated nodes': `
    N01 N02 N03 N04 N05 N06 N08 N10 N11 N13 N14 N15 N16 N18 N19 N21 N22 N23 N24 N25 N29 N30 N31 N32`,
  'what nobody is billed for': 'A01 A02 A03 A04 A05 A06 A07',
  'capacity types': 'T01 T02 T03 T04 T06 T07 T08 T09 T10 T11 T12 T14',
  'windows and failures': 'W02 W03 W04 W05 W06 W07 W08 W09 W10 W11 W12 W13 W14 W15 W35',
};

/** The cases that rest on resource claims and slices. */
export const CLAIM_CASES = `${HOST_CASES['GPUs that claims give out']} N22 N23`;

/** Those of tenant clusters with nodes of their own, and of Prometheus, which no object of the host holds. */
export const OTHER_CASES: Readonly<Record<string, string>> = {
  'nodes of tenant clusters’ own': `
    P01 P02 P04 P05 P06 P07 P08 P09 P11 P12 P13 P14 P16 P17 P18 P19`,
  'namespaces that syncers map, in usage and enforcement': 'C34 C35',
  'time as it passes while nobody looks': `
    W16 W17 W18 W19 W20 W21 W22 W23 W24 W25 W27 W28 W29 W30 W31 W32 W33 W36 W37`,
  'what Prometheus measures': 'U01 U03 U04 U05 U06 U07 U08 U10 U11 U13 U14 U15 U16 U17 U18 U19',
};

/** A title, or a row of a table of tests, begins with the ids of its cases, and goes on in words: `W03, W04: …`. */
export function idsOf(title: string): readonly string[] {
  const [, ids] = /^((?:[A-Z]\d\d(?:, | and ))*[A-Z]\d\d)\b/.exec(title) ?? [];
  return ids === undefined ? [] : ids.split(/, | and /);
}

export function listed(ids: string): readonly string[] {
  return ids.trim().split(/\s+/);
}
