export { type CrashMessage, type CrashOptions, type CrashPlan, type CrashRun, crashEverywhere } from './crash.ts'
export { FakeClock, type FakeClockOptions } from './fake-clock.ts'
export type { Scene, StoreFixture } from './store-suite/scene.ts'
export { type StoreSuiteSubject, storeSuite } from './store-suite.ts'
export type { Deviation, Expect, Expectation, TestFramework } from './test-framework.ts'
export {
  type TransportFixture,
  type TransportScene,
  type TransportSuiteSubject,
  transportSuite,
} from './transport-suite.ts'
